"""Adds the queues of a cluster."""

from alembic import op

from scheduler_service.persistence.job_store.job_store_schema import queue_turns
from scheduler_service.persistence.queues.queue_tables import queue_completions, queue_parts

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Makes them, empty."""
    for table in (queue_parts, queue_completions, queue_turns):
        table.create(op.get_bind())
