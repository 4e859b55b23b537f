"""The tables of the queues, the same in all stores, and what turns write into them in their own transaction.

Moments are steady ms.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import (
    AcceptChanges,
    PublishParts,
    QueueWrite,
    ReconfigureParts,
    WithdrawParts,
)
from scheduler_service.domain.step_parts import PartName, QueuedPart, QueueOptions, write_part_id
from scheduler_service.persistence.common.packing import pack
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import WHERE, IsIn, Row, Upsert, indexed_text, text
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
STATEMENT_BYTES = 256 << 10
"""So many bytes of parts are published by one statement, or one part."""

_PUBLISH = Upsert(
    table=queue_parts,
    columns=(
        "part_id", "uid", "execute_number", "request_counts", "step", "total", "tenant", "queue",
        "created_at", "content", "published", "expires", "priority", "named", "specific", "options",
        "state", "free_at", "retries", "serial", "changes", "noted_at",
    ),
    key=("part_id",),
)  # fmt: skip


def write_parts(connection: sa.Connection, dialect: Dialect, writes: Iterable[QueueWrite]) -> None:
    """Publishes, withdraws and reconfigures parts, in the order of `writes`."""
    for write in writes:
        match write:
            case PublishParts(parts=parts):
                _publish(connection, dialect, parts)
            case WithdrawParts():
                _withdraw(connection, write)
            case ReconfigureParts(name=name, options=options):
                _reconfigure(connection, name, options)
            case AcceptChanges(name=name, serial=serial):
                # A newer change keeps all of them; the job ignores those that it has acknowledged.
                accepted = sa.update(queue_parts).values(changes="")
                is_newest = (_part.part_id == write_part_id(name)) & (_part.serial == serial)
                connection.execute(accepted.where(is_newest))


def _publish(connection: sa.Connection, dialect: Dialect, parts: Iterable[QueuedPart]) -> None:
    rows: list[Row] = []
    size = 0
    for part in parts:
        content = pack(part)
        size += len(content)
        if rows and size > STATEMENT_BYTES:
            dialect.insert_many(connection, _PUBLISH, rows)
            rows, size = [], len(content)
        rows.append(_row(part, content))
    dialect.insert_many(connection, _PUBLISH, rows)


def _withdraw(connection: sa.Connection, write: WithdrawParts) -> None:
    where = (_part.uid == write.uid) & (_part.execute_number == write.execute_number)
    if write.request_counts:
        where &= _part.request_counts == write.request_counts
    # Held first: a lease that ends or begins between the two would leave a part that nobody awaits.
    connection.execute(sa.select(_part.part_id).where(where).order_by(_part.part_id).with_for_update()).all()
    connection.execute(sa.delete(queue_parts).where(where, _part.state.in_((FREE, ENDED))))
    connection.execute(sa.update(queue_parts).where(where, _part.state == LEASED).values(state=CANCELLED))


def _reconfigure(connection: sa.Connection, name: PartName, options: QueueOptions) -> None:
    """Options apply from the next claim on, those of renewals from the next renewal. The lease of an instance
    that is no longer named ends now; this is not a retry.
    """
    where = sa.and_(
        _part.uid == name.uid,
        _part.execute_number == name.execute_number,
        _part.request_counts == name.request_counts,
        _part.step == name.step,
    )
    expires = sa.case(
        (_part.expires.is_(None), sa.null()), else_=_part.published + sa.literal(options.queue_timeout)
    )
    priority, named, specific, packed = _options(options)
    values: dict[str, Any] = {"priority": priority, "named": named, "specific": specific, "options": packed}
    connection.execute(sa.update(queue_parts).where(where).values(values | {"expires": expires}))
    if options.specific:
        is_named = IsIn(_part.instance, sa.literal(specific))
        gone = sa.update(queue_parts).where(where, _part.state == LEASED, sa.not_(is_named))
        connection.execute(gone.values(IS_FREE_AGAIN))


def _row(part: QueuedPart, content: bytes) -> Row:
    """The values of `_PUBLISH`."""
    name, options = part.name, part.options
    expires = None if part.published is None else part.published + options.queue_timeout
    return (
        write_part_id(name), name.uid, name.execute_number, name.request_counts, name.step, part.total,
        part.tenant, part.queue, part.created_at, content, part.published, expires, *_options(options),
        FREE, 0, 0, 0, "", 0,
    )  # fmt: skip


def _options(options: QueueOptions) -> tuple[int, int, str, bytes]:
    """priority, named, specific, options."""
    specific = msgspec.json.encode(options.specific).decode()
    return options.priority, int(bool(options.specific)), specific, pack(options)
