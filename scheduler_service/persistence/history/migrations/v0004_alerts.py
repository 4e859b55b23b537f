"""Adds the tables of the alerts, and the indexes by which they find what failed."""

from alembic import op

from scheduler_service.persistence.history.alert_tables import alert_marks, alerts
from scheduler_service.persistence.history.schema import deliveries, executions
from scheduler_service.persistence.sql.migrations import add_missing, named

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Makes the tables, empty, and the indexes; what was given up before is not told."""
    indexes = (named(executions, "executions_ended_badly"), named(deliveries, "deliveries_given_up"))
    add_missing(op.get_bind(), deliveries.c.given_up_at, alerts, alert_marks, *indexes)
