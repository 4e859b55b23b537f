"""Adds what 0.2.0 has beside the tables of 0.1.0: events, one registry, queues, rates, and states in claims.

Nodes of 0.1.0 that run go on beside it, and their claims wait while it reads the rows of `jobs`; none can be
added, of which the row `format` of `marks` tells them. Versions in between were never released.
"""

import sqlalchemy as sa
from alembic.operations import Operations

from scheduler_service.persistence.job_store import job_store_schema as tables
from scheduler_service.persistence.queues.queue_tables import queue_completions, queue_parts
from scheduler_service.persistence.sql.job_tables import IN_THE_ROW

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


def upgrade(change: Operations) -> None:
    """The new tables are empty; no row of a job has its state yet."""
    for table in NEW:
        table.create(change.get_bind())
    change.add_column("jobs", sa.Column("turn_state", sa.LargeBinary))
    reads_claims = sa.Column("reads_claims", sa.SmallInteger, nullable=False, server_default="0")
    change.add_column("nodes", reads_claims)
    if change.get_bind().dialect.name == "postgresql":
        change.execute(IN_THE_ROW)
        change.alter_column("nodes", "reads_claims", server_default=None)
    change.execute(MARK)
    change.drop_index("jobs_holder", table_name="jobs")
    change.create_index("jobs_held", "jobs", ["node", "boot", "live", "claimed_at"])
    for name, table_name, columns, condition in PARTIAL:
        change.drop_index(name, table_name=table_name)
        rows = sa.text(condition)
        change.create_index(name, table_name, list(columns), sqlite_where=rows, postgresql_where=rows)
