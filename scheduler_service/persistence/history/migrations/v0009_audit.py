"""Adds the audit, empty."""

from alembic import op

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.audit_lines import audit

revision = "0009"
down_revision = "0007"


def upgrade() -> None:
    """Makes the table and its indexes."""
    add_missing(op.get_bind(), audit)
