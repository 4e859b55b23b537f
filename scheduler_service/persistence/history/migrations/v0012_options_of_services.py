"""Adds the options that a service gives its jobs; none does yet."""

from alembic import op

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.service_table import services

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Makes the column."""
    add_missing(op.get_bind(), services.c.options)
