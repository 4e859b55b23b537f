"""Adds what 0.2.0 has beside the tables of 0.1.0: statistics, alerts, pauses; all empty.

What ended or was given up before is not in them.
"""

from alembic.operations import Operations

from scheduler_service.persistence.history.schema import (
    alert_marks,
    alerts,
    deliveries,
    executions,
    statistic_cells,
    statistic_days,
    statistic_slots,
)
from scheduler_service.persistence.sql.migrations import add_missing, named
from scheduler_service.persistence.tables.service_table import pauses


def upgrade(change: Operations) -> None:
    """Makes the tables, and the indexes by which alerts and lists find what failed."""
    add_missing(
        change.get_bind(), statistic_cells, statistic_days, statistic_slots, alerts, alert_marks, pauses
    )
    indexes = ("executions_ended_badly", "executions_not_succeeded")
    add_missing(change.get_bind(), deliveries.c.given_up_at, named(deliveries, "deliveries_given_up"))
    add_missing(change.get_bind(), *(named(executions, name) for name in indexes))
