"""Adds the tables of the alerts, and the indexes by which they find what failed."""

import sqlalchemy as sa
from alembic import op

from scheduler_service.persistence.history.alert_tables import alert_marks, alerts
from scheduler_service.persistence.history.schema import deliveries, executions

revision = "0004"
down_revision = "0003"
NEW = ("executions_ended_badly", "deliveries_given_up")


def upgrade() -> None:
    """Makes the tables, empty, and the indexes; what was given up before is not told."""
    bind = op.get_bind()
    op.add_column("deliveries", sa.Column("given_up_at", sa.BigInteger))
    for table in (alerts, alert_marks):
        table.create(bind)
    found: list[sa.Index] = [*executions.indexes, *deliveries.indexes]
    for index in found:
        if index.name in NEW:
            index.create(bind)
