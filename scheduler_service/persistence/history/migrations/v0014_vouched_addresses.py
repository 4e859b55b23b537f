"""Adds who vouches for the address of a service; nothing is noted of those that are stored."""

from alembic import op

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.service_table import services

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Makes the column."""
    add_missing(op.get_bind(), services.c.vouched)
