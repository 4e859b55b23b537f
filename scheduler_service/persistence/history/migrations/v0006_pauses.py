"""Adds the table of paused queues and services."""

from alembic import op

from scheduler_service.persistence.services.table import pauses

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Makes the table, empty."""
    pauses.create(op.get_bind())
