"""Adds the table of calendars; empty."""

from alembic import op

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.marked_tables import calendars

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Makes the table."""
    add_missing(op.get_bind(), calendars)
