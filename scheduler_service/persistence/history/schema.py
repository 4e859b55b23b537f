"""The tables of the history. Moments are wall milliseconds; the migrations make the same tables."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

metadata = sa.MetaData()


def _text(length: int) -> sa.types.TypeEngine[str]:
    """A text in order of its bytes, and of any length, as SQLite has it: whatever the server's locale."""
    return sa.String(length).with_variant(postgresql.VARCHAR(collation="C"), "postgresql")


executions = sa.Table(
    "executions",
    metadata,
    sa.Column("uid", _text(64), primary_key=True),
    sa.Column("execute_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", _text(260), nullable=False),
    sa.Column("tenant", _text(128), nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("state", _text(16), nullable=False),
    sa.Column("triggered_by", _text(16), nullable=False),
    sa.Column("planned_at", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("reason", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("failure_type", _text(16)),
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
    postgresql_where=NOT_SUCCEEDED,
)

# One row holds what a flush found of one execution: records of the turns `first` to `last`, MessagePack.
entries = sa.Table(
    "entries",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("uid", _text(64), nullable=False),
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

# The ledger. `until` is `planned_at` for a single firing, `execute_number` 0 where nothing was started.
firings = sa.Table(
    "firings",
    metadata,
    sa.Column("uid", _text(64), primary_key=True),
    sa.Column("planned_at", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("until", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("execute_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("outcome", _text(16), nullable=False),
    sa.Column("count", sa.BigInteger),
    sa.Column("reason", sa.Text),
)
sa.Index("firings_by_age", firings.c.at)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("delivery_id", _text(255), primary_key=True),
    sa.Column("uid", _text(64), nullable=False),
    sa.Column("execute_number", sa.BigInteger, nullable=False),
    sa.Column("request_counts", sa.BigInteger, nullable=False),
    sa.Column("job_id", _text(260), nullable=False),
    sa.Column("tenant", _text(128), nullable=False),
    sa.Column("event", _text(64), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("state", _text(16), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("tries", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
)
sa.Index("deliveries_of_execution", deliveries.c.uid, deliveries.c.execute_number)
sa.Index("deliveries_newest", deliveries.c.tenant, deliveries.c.created_at)

# Declared timers are kept as the JSON array that was posted; `digest` tells one array from another.
services = sa.Table(
    "manager_service",
    metadata,
    sa.Column("tenant", _text(128), primary_key=True),
    sa.Column("name", _text(128), primary_key=True),
    sa.Column("address", sa.Text),
    sa.Column("route", _text(16)),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("timers", sa.LargeBinary, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("on_change", _text(8), nullable=False),
    sa.Column("grace", sa.BigInteger, nullable=False),
    sa.Column("rate_limit", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("removed_at", sa.BigInteger),
)

# What `check-timers` did about a declared job; a job has one owner.
applied = sa.Table(
    "declared_timers",
    metadata,
    sa.Column("tenant", _text(128), primary_key=True),
    sa.Column("job_id", _text(260), primary_key=True),
    sa.Column("service", _text(128), nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("uid", _text(64), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("removed_at", sa.BigInteger),
    sa.Column("paused", sa.SmallInteger, nullable=False),
    sa.Column("finished", sa.SmallInteger, nullable=False),
)
sa.Index("declared_timers_of_service", applied.c.tenant, applied.c.service, applied.c.job_id)
