"""Adds the tables of the statistics per day; executions that ended before are not in them."""

from alembic import op

from scheduler_service.persistence.history.schema import statistic_cells, statistic_days
from scheduler_service.persistence.sql.migrations import add_missing

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Makes both, empty."""
    add_missing(op.get_bind(), statistic_cells, statistic_days)
