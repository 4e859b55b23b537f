"""The first tables: executions, entries, firings, deliveries."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes the tables of the history."""
    _create_executions()
    _create_entries()
    _create_firings()
    _create_deliveries()


def _create_executions() -> None:
    op.create_table(
        "executions",
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
        sa.Column("params", sa.LargeBinary),
        sa.Column("params_complete", sa.SmallInteger, nullable=False, server_default="1"),
        sa.Column("dropped", sa.SmallInteger, nullable=False, server_default="0"),
    )
    op.create_index("executions_newest", "executions", ["tenant", "created_at", "state"])
    op.create_index("executions_of_job", "executions", ["tenant", "job_id", "created_at"])
    op.create_index("executions_planned", "executions", ["tenant", "planned_at"])
    others = sa.text("state != 'succeeded'")
    op.create_index(
        "executions_by_state",
        "executions",
        ["tenant", "state", "created_at"],
        sqlite_where=others,
        postgresql_where=others,
    )


def _create_entries() -> None:
    op.create_table(
        "entries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("uid", _text(64), nullable=False),
        sa.Column("execute_number", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_index(
        "entries_of_execution", "entries", ["uid", "execute_number", "first", "last"], unique=True
    )


def _create_firings() -> None:
    op.create_table(
        "firings",
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
    op.create_index("firings_by_age", "firings", ["at"])


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
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
    op.create_index("deliveries_of_execution", "deliveries", ["uid", "execute_number"])
    op.create_index("deliveries_newest", "deliveries", ["tenant", "created_at"])


def _text(length: int) -> sa.types.TypeEngine[str]:
    """A text in order of its bytes, and of any length, as SQLite has it: whatever the server's locale."""
    return sa.String(length).with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
