"""The table of the alerts, beside the history that they are made of."""

import sqlalchemy as sa

from scheduler_service.persistence.sql.expressions import text

metadata = sa.MetaData()

# One line per alert, kind and subject. `waits`: something of it was not said yet. Moments are wall ms.
alerts = sa.Table(
    "alerts",
    metadata,
    sa.Column("alert", text(64), primary_key=True),
    sa.Column("kind", text(32), primary_key=True),
    sa.Column("subject", text(400), primary_key=True),
    sa.Column("state", text(16), nullable=False),
    sa.Column("since", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("unsaid", sa.BigInteger, nullable=False),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("waits", sa.SmallInteger, nullable=False),
    sa.Column("said_at", sa.BigInteger),
    sa.Column("payload", sa.LargeBinary, nullable=False),
)
sa.Index("alerts_waiting", alerts.c.alert, alerts.c.waits, alerts.c.at)

alert_marks = sa.Table(
    "alert_marks",
    metadata,
    sa.Column("name", text(32), primary_key=True),
    sa.Column("moment", sa.BigInteger, nullable=False),
)
