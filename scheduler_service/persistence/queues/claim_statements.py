"""Claims: whoever asks for parts, and wherever, no two are given the same."""

import hashlib
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.leases import CLAIMED, Claim, Leased
from scheduler_service.persistence.common.packing import (
    read_changes,
    unpack_options,
    unpack_part,
    write_change,
)
from scheduler_service.persistence.queues.queue_tables import ENDED, FREE, LEASED, change_part, queue_parts
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import IsIn

Row = sa.Row[Any]
_part = queue_parts.c
_ORDER = (_part.priority.desc(), _part.named.desc(), _part.created_at, _part.part_id)
_STEP = (_part.uid, _part.execute_number, _part.request_counts, _part.step)


def claim_parts(connection: sa.Connection, dialect: Dialect, claim: Claim) -> tuple[Leased, ...]:
    """Of several parts of one step an instance gets one.

    Claims of one instance on one queue take turns, wherever they are made: what it holds counts for each.
    """
    dialect.take_turns(connection, _number_of(claim))
    room = len(claim.leases)
    if claim.capacity is not None:
        room = min(room, claim.capacity - _count_held(connection, claim))
    leased: list[Leased] = []
    ask, size = room, 0
    while len(leased) < room:
        found = _find_free(connection, claim, ask)
        if not found:
            break
        # Of a step with several parts the claim takes one: the others are not to be held meanwhile.
        ask = 1 if any(row.total > 1 for row in found) else room - len(leased)
        for row in _one_of_each_step(found)[: room - len(leased)]:
            size += row.size
            if leased and size > claim.room:
                return tuple(leased)
            leased.append(_take(connection, claim, row, claim.leases[len(leased)]))
    return tuple(leased)


def _one_of_each_step(found: list[Row]) -> list[Row]:
    first_of: dict[object, Row] = {}
    for row in found:
        first_of.setdefault((row.uid, row.execute_number, row.request_counts, row.step), row)
    return list(first_of.values())


def _take(connection: sa.Connection, claim: Claim, row: Row, lease: str) -> Leased:
    chosen = unpack_options(row.options)
    until = claim.now + chosen.lease
    changes = row.changes + write_change(row.serial + 1, CLAIMED, claim.now, claim.instance)
    change_part(
        connection,
        row.part_id,
        state=LEASED,
        instance=claim.instance,
        lease=lease,
        until=until,
        free_at=0,
        expires=None,
        serial=row.serial + 1,
        changes=changes,
        claimed_at=claim.now if row.claimed_at is None else row.claimed_at,
        noted_at=claim.now,
    )
    content, first_claim = connection.execute(_TAKEN, {"part_id": row.part_id}).one()
    part = msgspec.structs.replace(unpack_part(content), options=chosen)
    return Leased(lease, until, part, read_changes(changes), first_claim)


def _find_free(connection: sa.Connection, claim: Claim, limit: int) -> list[Row]:
    values = {"tenant": claim.tenant, "queue": claim.queue, "now": claim.now, "instance": claim.instance}
    return list(connection.execute(_FREE, {**values, "most": limit}).all())


def _count_held(connection: sa.Connection, claim: Claim) -> int:
    """What it has under lease; withdrawn parts do not count."""
    values = {"tenant": claim.tenant, "queue": claim.queue, "now": claim.now, "instance": claim.instance}
    return int(connection.execute(_HELD, values).scalar_one())


def _number_of(claim: Claim) -> int:
    """The same for all claims of an instance on a queue; that others may share it does no harm."""
    name = "\n".join((claim.tenant, claim.queue, claim.instance))
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)


def _find() -> sa.Select[Any]:
    now, instance = sa.bindparam("now", type_=sa.BigInteger), sa.bindparam("instance", type_=sa.Text)
    other = queue_parts.alias("other")
    has_one = sa.select(other.c.part_id).where(
        *_same_step(other),
        other.c.instance == instance,
        (other.c.state == sa.literal_column(str(LEASED))) | (other.c.state == sa.literal_column(str(ENDED))),
    )
    size = sa.func.length(_part.content).label("size")
    columns = (_part.part_id, *_STEP, _part.total, _part.options, size, _part.serial, _part.changes)
    return (
        sa.select(*columns, _part.claimed_at)
        .where(
            _part.state == sa.literal_column(str(FREE)),
            _part.tenant == sa.bindparam("tenant"),
            _part.queue == sa.bindparam("queue"),
            _part.free_at <= now,
            _part.expires.is_(None) | (_part.expires > now),
            (_part.named == 0) | IsIn(instance, _part.specific),
            (_part.total == 1) | ~has_one.exists(),
        )
        .order_by(*_ORDER)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .with_for_update(skip_locked=True, of=queue_parts)
    )


def _read_taken() -> sa.Select[Any]:
    """The content of a part, and the first claim of any part of its step, which has one."""
    other = queue_parts.alias("other")
    first = sa.select(sa.func.min(other.c.claimed_at)).where(*_same_step(other)).correlate(queue_parts)
    return sa.select(_part.content, first.scalar_subquery()).where(_part.part_id == sa.bindparam("part_id"))


def _same_step(other: sa.FromClause) -> list[sa.ColumnElement[bool]]:
    return [other.c[column.name] == column for column in _STEP]


_FREE = _find()
_TAKEN = _read_taken()
_HELD = sa.select(sa.func.count()).where(
    _part.state == sa.literal_column(str(LEASED)),
    _part.tenant == sa.bindparam("tenant"),
    _part.queue == sa.bindparam("queue"),
    _part.instance == sa.bindparam("instance"),
    _part.until > sa.bindparam("now"),
)
