"""Registered services, their running instances and their declared jobs (SPEC sections 11, 13)."""
