"""Adds the table of callers' keys; empty."""

from alembic import op

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.marked_tables import access_keys

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Makes the table."""
    add_missing(op.get_bind(), access_keys)
