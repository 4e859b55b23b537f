"""The shared tables. Moments are ms, `claimed_at` and `seen_at` on the steady line of the cluster."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

FORMAT = 1

metadata = sa.MetaData()


def _text(length: int) -> sa.types.TypeEngine[str]:
    """A text in order of its bytes, as SQLite has it, whatever the locale of the server."""
    return sa.String(length).with_variant(postgresql.VARCHAR(length, collation="C"), "postgresql")


jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("job_id", _text(260), primary_key=True),
    sa.Column("uid", _text(64), nullable=False),
    sa.Column("tenant", _text(128), nullable=False),
    sa.Column("job_name", _text(4_000), nullable=False),
    sa.Column("object_id", sa.Text),
    sa.Column("creator", sa.Text, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("parent_job", _text(260)),
    sa.Column("parent_execution", sa.BigInteger),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("system", sa.SmallInteger, nullable=False),
    sa.Column("next_fire", sa.BigInteger),
    sa.Column("execute_number", sa.BigInteger, nullable=False),
    sa.Column("request_counts", sa.BigInteger, nullable=False),
    sa.Column("missed", sa.BigInteger, nullable=False),
    sa.Column("live", sa.BigInteger, nullable=False),
    sa.Column("waiting", sa.BigInteger, nullable=False),
    sa.Column("latest", sa.LargeBinary, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("due_wall", sa.BigInteger),
    sa.Column("due_steady", sa.BigInteger),
    sa.Column("node", sa.String(64), nullable=False),
    sa.Column("boot", sa.String(64), nullable=False),
    sa.Column("claimed_at", sa.BigInteger, nullable=False),
)
sa.Index("jobs_due_wall", jobs.c.due_wall)
sa.Index("jobs_due_steady", jobs.c.due_steady)
sa.Index("jobs_next_fire", jobs.c.next_fire)
sa.Index("jobs_holder", jobs.c.node, jobs.c.boot, jobs.c.claimed_at)
sa.Index("jobs_uid", jobs.c.uid)
sa.Index("jobs_state", jobs.c.tenant, jobs.c.state, jobs.c.job_id)
sa.Index("jobs_parent", jobs.c.parent_job, jobs.c.parent_execution, jobs.c.job_id)

definitions = sa.Table(
    "definitions",
    metadata,
    sa.Column("uid", _text(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", _text(260), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("text", sa.LargeBinary, nullable=False),
)
sa.Index("definitions_job", definitions.c.job_id)

remembered = sa.Table(
    "remembered",
    metadata,
    sa.Column("scope", _text(300), primary_key=True),
    sa.Column("key", _text(1_000), primary_key=True),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("job_id", _text(260), nullable=False),
)
sa.Index("remembered_created", remembered.c.created_at)
sa.Index("remembered_job", remembered.c.job_id)

# A delivery that is done stays for a while, so that its job's state, read late, does not bring it back.
outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("delivery_id", _text(255), primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("done_at", sa.BigInteger),
    sa.Column("node", sa.String(64), nullable=False),
    sa.Column("boot", sa.String(64), nullable=False),
)
sa.Index("outbox_holder", outbox.c.node, outbox.c.boot)
sa.Index("outbox_done", outbox.c.done_at)

# What deliveries came to, until the history has it.
untold = sa.Table(
    "untold",
    metadata,
    sa.Column("uid", _text(64), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("node", sa.String(64), nullable=False),
    sa.Column("boot", sa.String(64), nullable=False),
)
sa.Index("untold_holder", untold.c.node, untold.c.boot)

# The state of jobs that were taken over from a dead node, with their latest claim: what that node may still
# write late over it is told from it. `at` is steady.
copies = sa.Table(
    "copies",
    metadata,
    sa.Column("job_id", _text(260), primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)
sa.Index("copies_at", copies.c.at)

nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("node_id", _text(64), primary_key=True),
    sa.Column("boot", sa.String(64), nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("version", sa.String(32), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.BigInteger, nullable=False),
    sa.Column("jobs_held", sa.BigInteger, nullable=False),
    sa.Column("running", sa.BigInteger, nullable=False),
)

# Counters and leases by name: `value` is a number, `holder` and `until` say who has the lease.
marks = sa.Table(
    "marks",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.String(130), nullable=False),
    sa.Column("until", sa.BigInteger, nullable=False),
)
