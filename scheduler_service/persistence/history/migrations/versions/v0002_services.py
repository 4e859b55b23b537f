"""Services with the timers that they declare, and what was done about these."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes the tables of services."""
    _create_services()
    _create_declared_timers()


def _create_services() -> None:
    op.create_table(
        "manager_service",
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


def _create_declared_timers() -> None:
    op.create_table(
        "declared_timers",
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
    op.create_index("declared_timers_of_service", "declared_timers", ["tenant", "service", "job_id"])


def _text(length: int) -> sa.types.TypeEngine[str]:
    """A text in order of its bytes, and of any length, as SQLite has it: whatever the server's locale."""
    return sa.String(length).with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
