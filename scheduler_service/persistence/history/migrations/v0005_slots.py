"""Adds what is counted by five minutes (not what ended before), and the index of what did not succeed."""

from alembic import op

from scheduler_service.persistence.history.schema import executions, statistic_slots

revision = "0005"
down_revision = "0004"
NEW = "executions_not_succeeded"


def upgrade() -> None:
    """Makes the table, empty, and the index."""
    bind = op.get_bind()
    statistic_slots.create(bind)
    for index in executions.indexes:
        if index.name == NEW:
            index.create(bind)
