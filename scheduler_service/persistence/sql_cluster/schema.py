"""The shared tables. Moments are ms, `claimed_at` and `seen_at` in the steady time of the cluster."""

from typing import Any

import sqlalchemy as sa

from scheduler_service.persistence.sql.expressions import WHERE, bounded_text, text
from scheduler_service.persistence.sql.job_tables import metadata
from scheduler_service.persistence.sql.migrations import Migrations

remembered = sa.Table(
    "remembered",
    metadata,
    sa.Column("scope", bounded_text(300), primary_key=True),
    sa.Column("key", bounded_text(1_000), primary_key=True),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("job_id", bounded_text(260), nullable=False),
)
sa.Index("remembered_created", remembered.c.created_at)
sa.Index("remembered_job", remembered.c.job_id)

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

# The parts of `queue://` steps: `state` as `queue_rows` names it, `content` the part, `changes` those of its
# leases that its job has not accepted (`common.writes`), `serial` the number of all. `expires` ends the queue
# timeout of a part without a claim. `noted_at` is when it ended, or its leases changed. Moments are steady.
queue_parts = sa.Table(
    "queue_parts",
    metadata,
    sa.Column("part_id", text(160), primary_key=True),
    sa.Column("uid", text(64), nullable=False),
    sa.Column("execute_number", sa.BigInteger, nullable=False),
    sa.Column("request_counts", sa.BigInteger, nullable=False),
    sa.Column("step", sa.BigInteger, nullable=False),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("tenant", text(128), nullable=False),
    sa.Column("queue", text(255), nullable=False),
    sa.Column("priority", sa.BigInteger, nullable=False),
    sa.Column("named", sa.SmallInteger, nullable=False),
    sa.Column("specific", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("free_at", sa.BigInteger, nullable=False),
    sa.Column("instance", sa.Text),
    sa.Column("lease", text(64)),
    sa.Column("until", sa.BigInteger),
    sa.Column("retries", sa.BigInteger, nullable=False),
    sa.Column("options", sa.LargeBinary, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("ended", sa.LargeBinary),
    sa.Column("published", sa.BigInteger),
    sa.Column("expires", sa.BigInteger),
    sa.Column("serial", sa.BigInteger, nullable=False),
    sa.Column("changes", sa.Text, nullable=False),
    sa.Column("claimed_at", sa.BigInteger),
    sa.Column("noted_at", sa.BigInteger, nullable=False),
)


def _index(name: str, *columns: sa.ColumnElement[Any], where: sa.ColumnElement[bool], **more: Any) -> None:
    sa.Index(f"queue_parts_{name}", *columns, sqlite_where=where, postgresql_where=where, **more)


_part = queue_parts.c
_order = (_part.priority.desc(), _part.named.desc(), _part.created_at, _part.part_id)
_index("free", _part.tenant, _part.queue, *_order, where=_part.state == 0)
_index("delayed", _part.free_at, where=_part.state == 0)
_index("lease", _part.lease, where=_part.lease.is_not(None), unique=True)
_index("until", _part.until, where=_part.until.is_not(None))
_index("expires", _part.expires, where=_part.expires.is_not(None))
_index("held", _part.tenant, _part.queue, _part.instance, where=_part.state == 1)
_index("ended", _part.part_id, where=_part.state == 2)
_index("changed", _part.part_id, where=(_part.changes != "") & (_part.state != 2))
sa.Index("queue_parts_step", _part.uid, _part.execute_number, _part.request_counts, _part.step)

# How leases were completed, in the order of their completion.
queue_completions = sa.Table(
    "queue_completions",
    metadata,
    sa.Column("place", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("lease", text(64), nullable=False, unique=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)

# Of states of 0.1.0 the latest turn of each life of a job whose writes the queues have; `at` is steady.
queue_turns = sa.Table(
    "queue_turns",
    metadata,
    sa.Column("uid", bounded_text(64), primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)

# 0.1.0 made the same tables and kept no version of them.
MIGRATIONS = Migrations(
    subject="the shared database",
    scripts="scheduler_service.persistence.sql_cluster:migrations",
    head="0009",
    version_table="cluster_version",
    metadata=(metadata,),
    lock=1_347_767_875,
    unversioned="0001",
)
