"""Adds the table of calendars; empty."""

from alembic import op

from scheduler_service.persistence.calendars.calendar_table import calendars
from scheduler_service.persistence.sql.migrations import add_missing

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Makes the table."""
    add_missing(op.get_bind(), calendars)
