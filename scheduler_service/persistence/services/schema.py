"""The tables of services. They are kept in the database of the history, which has the migrations of both."""

import sqlalchemy as sa

from scheduler_service.persistence.sql.columns import text

metadata = sa.MetaData()

# Declared timers are kept as the JSON array that was posted; `digest` identifies it.
services = sa.Table(
    "manager_service",
    metadata,
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("name", text(128), primary_key=True),
    sa.Column("address", sa.Text),
    sa.Column("route", text(16)),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("timers", sa.LargeBinary, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("on_change", text(8), nullable=False),
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
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("job_id", text(260), primary_key=True),
    sa.Column("service", text(128), nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("uid", text(64), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("removed_at", sa.BigInteger),
    sa.Column("paused", sa.SmallInteger, nullable=False),
    sa.Column("finished", sa.SmallInteger, nullable=False),
)
sa.Index("declared_timers_of_service", applied.c.tenant, applied.c.service, applied.c.job_id)
