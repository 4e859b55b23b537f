"""Adds what is counted by five minutes (not what ended before), and the index of what did not succeed."""

from alembic import op

from scheduler_service.persistence.history.schema import executions, statistic_slots
from scheduler_service.persistence.sql.migrations import add_missing, named

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Makes the table, empty, and the index."""
    add_missing(op.get_bind(), statistic_slots, named(executions, "executions_not_succeeded"))
