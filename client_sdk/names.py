"""The forms of names on the wire, as patterns of JSON Schema (SPEC sections 2, 11)."""

JOB_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
INSTANCE_ID = JOB_ID
SERVICE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
"""Of services and of queues."""
