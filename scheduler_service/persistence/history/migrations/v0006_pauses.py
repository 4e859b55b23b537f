"""Adds the table of paused queues and services."""

from alembic import op

from scheduler_service.persistence.services.table import pauses
from scheduler_service.persistence.sql.migrations import add_missing

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Makes the table, empty."""
    add_missing(op.get_bind(), pauses)
