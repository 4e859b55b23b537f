"""The tables of the history. Moments are wall milliseconds."""

import sqlalchemy as sa

from scheduler_service.persistence.sql.expressions import WHERE, text
from scheduler_service.persistence.sql.migrations import Migrations
from scheduler_service.persistence.tables import audit_lines, key_secret_calendar_tables, service_table

metadata = sa.MetaData()

executions = sa.Table(
    "executions",
    metadata,
    sa.Column("uid", text(64), primary_key=True),
    sa.Column("execute_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", text(260), nullable=False),
    sa.Column("tenant", text(128), nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("state", text(16), nullable=False),
    sa.Column("triggered_by", text(16), nullable=False),
    sa.Column("planned_at", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("reason", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("failure_type", text(16)),
    sa.Column("attempt_count", sa.BigInteger, nullable=False),
    sa.Column("progress", sa.Text),
    # The trigger parameters as JSON. NULL: not kept. Complete: neither masked nor cut nor left out.
    sa.Column("params", sa.LargeBinary),
    sa.Column("params_complete", sa.SmallInteger, nullable=False, server_default="1"),
    sa.Column("dropped", sa.SmallInteger, nullable=False, server_default="0"),
)
sa.Index("executions_newest", executions.c.tenant, executions.c.created_at, executions.c.state)
sa.Index("executions_of_job", executions.c.tenant, executions.c.job_id, executions.c.created_at)
sa.Index("executions_planned", executions.c.tenant, executions.c.planned_at)
# Most executions succeed: only the others are worth an index of their state.
NOT_SUCCEEDED = executions.c.state != sa.literal_column("'succeeded'")
sa.Index(
    "executions_by_state",
    executions.c.tenant,
    executions.c.state,
    executions.c.created_at,
    sqlite_where=NOT_SUCCEEDED,
    info={WHERE: NOT_SUCCEEDED},
)

# By this the newest that did not succeed are found in a span of time, however many did.
sa.Index(
    "executions_not_succeeded",
    executions.c.tenant,
    executions.c.planned_at,
    sqlite_where=NOT_SUCCEEDED,
    info={WHERE: NOT_SUCCEEDED},
)

# Few executions end so: alerts find them by their end.
ENDED_BADLY = executions.c.state.in_((sa.literal_column("'terminated'"), sa.literal_column("'cancelled'")))
sa.Index("executions_ended_badly", executions.c.ended_at, sqlite_where=ENDED_BADLY, info={WHERE: ENDED_BADLY})

# One row holds what a flush found of one execution: records of the turns `first` to `last`, MessagePack.
entries = sa.Table(
    "entries",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("uid", text(64), nullable=False),
    sa.Column("execute_number", sa.BigInteger, nullable=False),
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
)
sa.Index(
    "entries_of_execution",
    entries.c.uid,
    entries.c.execute_number,
    entries.c.first,
    entries.c.last,
    unique=True,
)

# The ledger. `until` is `planned_at` for a single firing, `execute_number` 0 where none was started.
firings = sa.Table(
    "firings",
    metadata,
    sa.Column("uid", text(64), primary_key=True),
    sa.Column("planned_at", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("until", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("execute_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("outcome", text(16), nullable=False),
    sa.Column("count", sa.BigInteger),
    sa.Column("reason", sa.Text),
)
sa.Index("firings_by_age", firings.c.at)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("delivery_id", text(255), primary_key=True),
    sa.Column("uid", text(64), nullable=False),
    sa.Column("execute_number", sa.BigInteger, nullable=False),
    sa.Column("request_counts", sa.BigInteger, nullable=False),
    sa.Column("job_id", text(260), nullable=False),
    sa.Column("tenant", text(128), nullable=False),
    sa.Column("event", text(64), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("state", text(16), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("tries", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    # When it failed or went into the outbox for the first time, whatever became of it since.
    sa.Column("given_up_at", sa.BigInteger),
)
sa.Index("deliveries_of_execution", deliveries.c.uid, deliveries.c.execute_number)
sa.Index("deliveries_newest", deliveries.c.tenant, deliveries.c.created_at)

GIVEN_UP = deliveries.c.given_up_at.is_not(None)
sa.Index("deliveries_given_up", deliveries.c.given_up_at, sqlite_where=GIVEN_UP, info={WHERE: GIVEN_UP})

# What is counted of executions that have ended, by day (UTC, counted from 1970) of the planned moment; with
# the job '' the sum over all. What the writer adds is cells: each combination of outcome, failure type and
# the buckets of lateness and duration (`day_statistics`; in ms the sums). Days that are over become a row of
# each job.
statistic_cells = sa.Table(
    "statistic_cells",
    metadata,
    sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("job_id", text(260), primary_key=True),
    sa.Column("state", text(16), primary_key=True),
    sa.Column("failure_type", text(16), primary_key=True),
    sa.Column("lateness", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("duration", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("executions", sa.BigInteger, nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("lateness_ms", sa.BigInteger, nullable=False),
    sa.Column("duration_ms", sa.BigInteger, nullable=False),
)

# `started` counts those with a duration; `figures` is a `day_statistics.Figures`, MessagePack.
statistic_days = sa.Table(
    "statistic_days",
    metadata,
    sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("job_id", text(260), primary_key=True),
    sa.Column("executions", sa.BigInteger, nullable=False),
    sa.Column("terminated", sa.BigInteger, nullable=False),
    sa.Column("started", sa.BigInteger, nullable=False),
    sa.Column("duration_ms", sa.BigInteger, nullable=False),
    sa.Column("figures", sa.LargeBinary, nullable=False),
)

# What is counted of executions that have ended, by the five minutes (counted from 1970) of the planned
# moment, over all jobs of a tenant but the scheduler's own. `figure` is the state that they ended in,
# `lateness` or `duration`; `bucket` is that of `day_statistics`, 0 for a state. Kept for some days.
statistic_slots = sa.Table(
    "statistic_slots",
    metadata,
    sa.Column("slot", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("figure", text(16), primary_key=True),
    sa.Column("bucket", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("executions", sa.BigInteger, nullable=False),
)

# The alerts that are made of these tables: one line per alert, kind and subject. `waits`: something of it was
# not said yet.
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

# Services, keys and the audit are kept in the same database, so that its migrations are one list.
MIGRATIONS = Migrations(
    subject="the history",
    scripts="scheduler_service.persistence.history.migrations",
    version_table="history_version",
    metadata=(metadata, service_table.metadata, audit_lines.metadata, key_secret_calendar_tables.metadata),
    lock=1_347_767_876,
)
