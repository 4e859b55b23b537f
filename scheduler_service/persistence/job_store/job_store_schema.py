"""The shared tables. Moments are ms, `claimed_at` and `seen_at` in the steady time of the cluster."""

import sqlalchemy as sa

from scheduler_service.persistence.queues.queue_tables import queue_parts
from scheduler_service.persistence.sql.expressions import WHERE, bounded_text
from scheduler_service.persistence.sql.job_tables import metadata, remembered
from scheduler_service.persistence.sql.migrations import Migrations

assert queue_parts.metadata is remembered.metadata is metadata  # they are a part of it

# A delivery that is done stays for a while, so that a state of 0.1.0, read late, does not bring it back.
outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("delivery_id", bounded_text(255), primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("done_at", sa.BigInteger),
    sa.Column("node", sa.String(64), nullable=False),
    sa.Column("boot", sa.String(64), nullable=False),
)
_not_done = sa.text("done_at IS NULL")
sa.Index("outbox_holder", outbox.c.node, outbox.c.boot, sqlite_where=_not_done, info={WHERE: _not_done})
sa.Index("outbox_done", outbox.c.done_at)

# The records of deliveries that the history may not have yet.
untold = sa.Table(
    "untold",
    metadata,
    sa.Column("uid", bounded_text(64), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("node", sa.String(64), nullable=False),
    sa.Column("boot", sa.String(64), nullable=False),
)
sa.Index("untold_holder", untold.c.node, untold.c.boot)

# The state that a claim of 0.1.0 brought beside the one in the actor store: read where the job had no turn
# since. `at` is steady.
copies = sa.Table(
    "copies",
    metadata,
    sa.Column("job_id", bounded_text(260), primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)
sa.Index("copies_at", copies.c.at)

nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("node_id", bounded_text(64), primary_key=True),
    sa.Column("boot", sa.String(64), nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("version", sa.String(32), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.BigInteger, nullable=False),
    sa.Column("jobs_held", sa.BigInteger, nullable=False),
    sa.Column("running", sa.BigInteger, nullable=False),
    # Always 1. Without a default: a program of before cannot add a node any more.
    sa.Column("reads_claims", sa.SmallInteger, nullable=False),
)

# Counters and leases by name: `value` is a number, `holder` has the lease until `until`.
marks = sa.Table(
    "marks",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.String(130), nullable=False),
    sa.Column("until", sa.BigInteger, nullable=False),
)

# What happened at the nodes, while a node wants it: groups in the order of their numbers. `at` is steady.
event_groups = sa.Table(
    "event_groups",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

# The instances of services: `content` is the registration, `number` the place of its writing among all of
# these three tables (the mark `registry`). `seen_at` and `left_at` are steady.
shared_instances = sa.Table(
    "shared_instances",
    metadata,
    sa.Column("tenant", bounded_text(128), primary_key=True),
    sa.Column("service", bounded_text(128), primary_key=True),
    sa.Column("instance_id", bounded_text(128), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("seen_at", sa.BigInteger, nullable=False),
    sa.Column("left_at", sa.BigInteger),
)
sa.Index("shared_instances_number", shared_instances.c.number)

# Who may use how much of the rate limit of a service: `content` is written over the `number` that was read.
shared_rates = sa.Table(
    "shared_rates",
    metadata,
    sa.Column("tenant", bounded_text(128), primary_key=True),
    sa.Column("service", bounded_text(128), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

# Services of which the table of services has something new, or whose jobs were declared anew.
service_notices = sa.Table(
    "service_notices",
    metadata,
    sa.Column("tenant", bounded_text(128), primary_key=True),
    sa.Column("name", bounded_text(128), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("anew", sa.SmallInteger, nullable=False),
)
sa.Index("service_notices_number", service_notices.c.number)

# Which instances each node has heard of lately, and its open calls to them: one row for all of them, so that
# a thousand heartbeats are one write. `at` is steady.
node_reports = sa.Table(
    "node_reports",
    metadata,
    sa.Column("node", bounded_text(64), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

# Of states of 0.1.0 the latest turn of each life of a job whose writes the queues have; `at` is steady.
queue_turns = sa.Table(
    "queue_turns",
    metadata,
    sa.Column("uid", bounded_text(64), primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)

# 0.1.0 made tables without a version. Its nodes refuse those whose row `format` in `marks` has a value above
# 1: a step after which they must not go on writes it.
MIGRATIONS = Migrations(
    subject="the shared database",
    scripts="scheduler_service.persistence.job_store.migrations",
    version_table="cluster_version",
    metadata=(metadata,),
    lock=1_347_767_875,
    unversioned="0001",
)
