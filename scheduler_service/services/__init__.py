"""The registry: services, their running instances, and the jobs that they declare (SPEC sections 11, 13)."""
