"""Adds the table of stored secrets; empty."""

from alembic import op

from scheduler_service.persistence.secrets.secret_table import stored_secrets
from scheduler_service.persistence.sql.migrations import add_missing

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Makes the table."""
    add_missing(op.get_bind(), stored_secrets)
