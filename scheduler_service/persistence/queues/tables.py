"""The tables of the queues, the same in all stores: what waits or is leased, and how leases were completed.

Moments are steady ms.
"""

from typing import Any

import sqlalchemy as sa

from scheduler_service.persistence.sql.expressions import WHERE, indexed_text, text
from scheduler_service.persistence.sql.job_tables import metadata

FREE, LEASED, ENDED, CANCELLED = 0, 1, 2, 3
"""`state`: may be claimed; leased; over; leased, but withdrawn by its job."""

# The parts of `queue://` steps: `content` is the part, `changes` those of its leases that its job has not
# accepted (`common.packing`), `serial` the number of all. `expires` ends the queue timeout of a part without
# a claim. `noted_at` is when it ended, or its leases changed.
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
    sa.Column("instance", indexed_text(128)),
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
    sa.Index(f"queue_parts_{name}", *columns, sqlite_where=where, info={WHERE: where}, **more)


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


def change_part(connection: sa.Connection, part_id: str, **values: Any) -> None:
    """Sets columns of one part."""
    connection.execute(_CHANGE, {"its_part_id": part_id, **values})


_CHANGE = sa.update(queue_parts).where(_part.part_id == sa.bindparam("its_part_id"))
IS_FREE_AGAIN = {"state": FREE, "instance": None, "lease": None, "until": None}
