"""Adds the table of events that nodes show each other."""

from alembic import op

from scheduler_service.persistence.job_store.job_store_schema import event_groups

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes it, empty."""
    event_groups.create(op.get_bind())
