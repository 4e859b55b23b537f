"""Adds what 0.2.0 has beside the tables of 0.1.0: events, one registry, queues, rates, and states in claims.

Nodes of 0.1.0 that run go on beside it, and their claims wait while it reads the rows of `jobs`; none can be
added, of which the row `format` of `marks` tells them. Versions in between were never released.
"""

import sqlalchemy as sa
from alembic import op

from scheduler_service.persistence.job_store import job_store_schema as tables
from scheduler_service.persistence.queues.queue_tables import queue_completions, queue_parts
from scheduler_service.persistence.sql.job_tables import IN_THE_ROW

revision = "0008"
down_revision = "0001"

NEW = (
    tables.event_groups,
    tables.shared_instances,
    tables.service_notices,
    tables.node_reports,
    queue_parts,
    queue_completions,
    tables.queue_turns,
    tables.shared_rates,
)
MARK = "INSERT INTO marks (name, value, holder, until) VALUES ('format', 2, '', 0) \
ON CONFLICT (name) DO UPDATE SET value = 2"
PARTIAL = (
    ("jobs_due_wall", "jobs", ("due_wall",), "due_wall IS NOT NULL"),
    ("jobs_due_steady", "jobs", ("due_steady",), "due_steady IS NOT NULL"),
    ("jobs_parent", "jobs", ("parent_job", "parent_execution", "job_id"), "parent_job IS NOT NULL"),
    ("outbox_holder", "outbox", ("node", "boot"), "done_at IS NULL"),
)
"""Indexes of 0.1.0 that leave out rows now: name, table, columns, and which rows they have."""


def upgrade() -> None:
    """The new tables are empty; no row of a job has its state yet."""
    for table in NEW:
        table.create(op.get_bind())
    op.add_column("jobs", sa.Column("turn_state", sa.LargeBinary))
    reads_claims = sa.Column("reads_claims", sa.SmallInteger, nullable=False, server_default="0")
    op.add_column("nodes", reads_claims)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(IN_THE_ROW)
        op.alter_column("nodes", "reads_claims", server_default=None)
    op.execute(MARK)
    op.drop_index("jobs_holder", table_name="jobs")
    op.create_index("jobs_held", "jobs", ["node", "boot", "live", "claimed_at"])
    for name, table_name, columns, condition in PARTIAL:
        op.drop_index(name, table_name=table_name)
        rows = sa.text(condition)
        op.create_index(name, table_name, list(columns), sqlite_where=rows, postgresql_where=rows)
