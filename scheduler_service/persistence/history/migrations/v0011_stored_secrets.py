"""Adds the table of stored secrets; empty."""

from alembic import op

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.marked_tables import stored_secrets

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Makes the table."""
    add_missing(op.get_bind(), stored_secrets)
