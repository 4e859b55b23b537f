"""Leases: renewed, completed, ended; lengthened after a downtime; and what is read of parts and leases.

Each function is one transaction's work, and does what the method of `ports.queues.Queues` of a similar name
documents. Rows that another process works on are left to it.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.leases import (
    DOWNTIME_GRACE_MS,
    LOST,
    ChangedPart,
    EndedPart,
    Freeing,
    HeldPart,
    LeaseHolder,
    QueueFigures,
    QueueQuery,
    Renewed,
    Swept,
    merge_figures,
)
from scheduler_service.domain.moments import HOUR
from scheduler_service.domain.step_parts import PartEnd, as_said, digest_said, end_of_unclaimed
from scheduler_service.persistence.common.packing import (
    lost_part_end,
    pack,
    read_changes,
    unpack_end,
    unpack_options,
    unpack_part,
    write_change,
)
from scheduler_service.persistence.queues.queue_tables import (
    CANCELLED,
    ENDED,
    FREE,
    IS_FREE_AGAIN,
    LEASED,
    change_part,
    queue_completions,
    queue_parts,
)
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Upsert, overwrite

_part = queue_parts.c
_IS_FREE, _IS_LEASED, _IS_OVER = (
    _part.state == sa.literal_column(str(state)) for state in (FREE, LEASED, ENDED)
)
Name = tuple[str, str]


def read_figures(connection: sa.Connection, query: QueueQuery) -> list[QueueFigures]:
    which = _part.queue > query.after if query.name is None else _part.queue == query.name
    waiting = _per_queue(query, which, sa.func.min(_part.created_at)).where(_IS_FREE)
    leased = _per_queue(query, which).where(_IS_LEASED)
    found = [QueueFigures(*row) for row in connection.execute(waiting)]
    found += [QueueFigures(queue, held=held) for queue, held in connection.execute(leased)]
    return merge_figures(found, query.limit)


def read_held(connection: sa.Connection, query: QueueQuery) -> list[HeldPart]:
    columns = (_part.part_id, _part.content, _part.instance, _part.until)
    wanted: sa.Select[Any] = sa.select(*columns).where(
        _IS_LEASED, _part.tenant == query.tenant, _part.queue == query.name, _part.part_id > query.after
    )
    found: list[HeldPart] = []
    for part_id, content, instance, until in connection.execute(
        wanted.order_by(_part.part_id).limit(query.limit)
    ):
        part = unpack_part(content)
        found.append(HeldPart(part_id, part.job_id, part.name, part.total, instance, until))
    return found


def read_ended(
    connection: sa.Connection, after: str, limit: int, before: int | None = None
) -> list[EndedPart]:
    """`before` leaves out those that have ended since (steady ms)."""
    wanted = sa.select(_part.part_id, _part.content, _part.ended, _part.changes).where(_IS_OVER)
    rows = connection.execute(_page(wanted, after, limit, before)).all()
    return [make_ended(part_id, content, unpack_end(end), changes) for part_id, content, end, changes in rows]


def read_changed(
    connection: sa.Connection, after: str, limit: int, before: int | None = None
) -> list[ChangedPart]:
    """`before` leaves out those that have changed since (steady ms)."""
    wanted = sa.select(_part.part_id, _part.content, _part.changes)
    is_changed = (_part.changes != sa.literal_column("''")) & (_part.state != sa.literal_column("2"))
    rows = connection.execute(_page(wanted.where(is_changed), after, limit, before)).all()
    return [make_changed(*row) for row in rows]


def read_claimable(connection: sa.Connection, names: Iterable[Name], now: int) -> list[Name]:
    """Which of these queues (tenant, name) have a part that is free."""
    found = []
    for tenant, queue in names:
        one = sa.select(_part.part_id).where(
            _IS_FREE, _part.tenant == tenant, _part.queue == queue, _part.free_at <= now
        )
        if connection.execute(one.limit(1)).first() is not None:
            found.append((tenant, queue))
    return found


def make_ended(part_id: str, content: bytes, end: PartEnd, changes: str) -> EndedPart:
    """A part that is over."""
    part = unpack_part(content)
    return EndedPart(part_id, part.job_id, part.name, end, part.request, read_changes(changes))


def make_changed(part_id: str, content: bytes, changes: str) -> ChangedPart:
    """A part that is not over, with its lease changes."""
    part = unpack_part(content)
    return ChangedPart(part_id, part.job_id, part.name, read_changes(changes))


def _per_queue(
    query: QueueQuery, which: sa.ColumnElement[bool], *more: sa.ColumnElement[int]
) -> sa.Select[Any]:
    wanted = sa.select(_part.queue, sa.func.count(), *more).where(_part.tenant == query.tenant, which)
    return wanted.group_by(_part.queue).order_by(_part.queue).limit(query.limit)


def _page(wanted: sa.Select[Any], after: str, limit: int, before: int | None) -> sa.Select[Any]:
    if before is not None:
        wanted = wanted.where(_part.noted_at < before)
    return wanted.where(_part.part_id > after).order_by(_part.part_id).limit(limit)


COMPLETION_KEPT_MS = 24 * HOUR
MAX_COMPLETIONS = 100_000
"""How long, and how many, completed leases are known (ports.queues.Queues.complete)."""
SWEEP_BATCH_SIZE = 500
PRUNE_BATCH_SIZE = 10
"""How many old completions may be deleted with each new one, so that no completion pays for many others."""
Row = Any
_known = queue_completions.c
_LEASE = sa.select(
    _part.part_id, _part.state, _part.retries, _part.instance, _part.until, _part.options, _part.content,
    _part.ended, _part.serial, _part.changes, _part.tenant, _part.queue,
)  # fmt: skip
_OF_LEASE = _LEASE.where(_part.lease == sa.bindparam("lease")).with_for_update()
_DELETE = sa.delete(queue_parts).where(_part.part_id == sa.bindparam("part_id"))
_COMPLETION = Upsert(
    table=queue_completions,
    columns=("lease", "digest", "at"),
    key=("lease",),
    changes=overwrite("digest", "at"),
)


def renew_lease(
    connection: sa.Connection, lease: str, now: int, holder: LeaseHolder | None = None
) -> Renewed | None:
    row = connection.execute(_OF_LEASE, {"lease": lease}).first()
    if row is None or row.state == ENDED or row.until <= now or not _is_of(row, holder):
        return None
    options = unpack_options(row.options)
    until = now + options.lease
    change_part(connection, row.part_id, until=until)
    part = unpack_part(row.content)
    return Renewed(until, options.lease, options.renew, row.state == CANCELLED, part.job_id, part.name)


def complete_lease(
    connection: sa.Connection,
    dialect: Dialect,
    lease: str,
    end: PartEnd,
    now: int,
    max_completions: int,
    holder: LeaseHolder | None = None,
) -> EndedPart | bool:
    """Of completed leases at most `max_completions` are known afterwards."""
    row = connection.execute(_OF_LEASE, {"lease": lease}).first()
    if row is None:
        return _is_known(connection, lease, end)
    if not _is_of(row, holder):
        return False
    if row.state == ENDED:
        return _repeat(connection, row, end)
    if row.until <= now:
        return False
    end = msgspec.structs.replace(end, instance=row.instance)
    if row.state == CANCELLED:
        connection.execute(_DELETE, {"part_id": row.part_id})
        return msgspec.structs.replace(make_ended(row.part_id, row.content, end, ""), is_withdrawn=True)
    _keep_completion(connection, dialect, lease, end, max_completions)
    return _end(connection, row, end, row.changes, now)


def _is_of(row: Row, holder: LeaseHolder | None) -> bool:
    return holder is None or holder.may_hold(row.tenant, row.queue)


def free_part(connection: sa.Connection, freeing: Freeing) -> Swept | None:
    now = freeing.now
    is_held = sa.and_(
        _part.part_id == freeing.part_id,
        _part.tenant == freeing.tenant,
        _part.queue == freeing.queue,
        _part.state == LEASED,
        _part.until > now,
    )
    if freeing.lease is not None:
        is_held &= _part.lease == freeing.lease
    row = connection.execute(_LEASE.where(is_held).with_for_update()).first()
    if row is None:
        return None
    released = _release(connection, row, now, is_unused=freeing.lease is not None)
    look = _next_look(connection, now)
    return Swept((released,), look) if isinstance(released, EndedPart) else Swept((), look, (released,))


def sweep_leases(connection: sa.Connection, now: int) -> Swept:
    ended: list[EndedPart] = []
    freed: list[ChangedPart] = []
    for row in _take_some(connection, _part.until.is_not(None) & (_part.until <= now)):
        if row.state == CANCELLED:
            connection.execute(_DELETE, {"part_id": row.part_id})
            continue
        released = _release(connection, row, now)
        if isinstance(released, EndedPart):
            ended.append(released)
        else:
            freed.append(released)
    for row in _take_some(connection, _part.expires.is_not(None) & (_part.expires <= now)):
        end = end_of_unclaimed(unpack_options(row.options).queue_timeout)
        ended.append(_end(connection, row, end, "", now))
    return Swept(tuple(ended), _next_look(connection, now), tuple(freed))


def extend_leases(connection: sa.Connection, now: int) -> None:
    leased = sa.select(_part.part_id, _part.options).where(_part.until.is_not(None))
    for part_id, options in connection.execute(leased.with_for_update()).all():
        change_part(connection, part_id, until=now + unpack_options(options).lease)
    _follow_clock(connection, now)
    soon = sa.select(_part.part_id, _part.expires, _part.options).where(
        _part.expires.is_not(None), _part.expires < now + DOWNTIME_GRACE_MS
    )
    for part_id, expires, options in connection.execute(soon).all():
        least = now + min(unpack_options(options).queue_timeout, DOWNTIME_GRACE_MS)
        change_part(connection, part_id, expires=max(expires, least))


def hold_queue(connection: sa.Connection, tenant: str, queue: str, now: int) -> None:
    is_over = _part.expires.is_not(None) & (_part.expires <= now)
    held = sa.update(queue_parts).where(is_over, _part.tenant == tenant, _part.queue == queue)
    connection.execute(held.values(expires=None))


def go_on_with_queue(connection: sa.Connection, tenant: str, queue: str, since: int, now: int) -> None:
    """`published` moves along, since the queue timeout counts from it."""
    is_unclaimed = _IS_FREE & _part.claimed_at.is_(None) & _part.published.is_not(None)
    wanted = sa.select(_part.part_id, _part.published, _part.options).where(
        is_unclaimed, _part.tenant == tenant, _part.queue == queue
    )
    for part_id, published, options in connection.execute(wanted.with_for_update()).all():
        began = now - max(since - published, 0)
        expires = began + unpack_options(options).queue_timeout
        change_part(connection, part_id, published=began, expires=expires)


def drop_part(connection: sa.Connection, part_id: str) -> None:
    is_over = (_part.part_id == part_id) & (_part.state == ENDED)
    row = connection.execute(sa.select(_part.lease).where(is_over).with_for_update()).first()
    if row is None:
        return
    if row.lease is not None:
        connection.execute(sa.delete(queue_completions).where(_known.lease == row.lease))
    connection.execute(sa.delete(queue_parts).where(is_over))


def _take_some(connection: sa.Connection, where: sa.ColumnElement[bool]) -> list[Row]:
    """Some rows, which no other node changes until the transaction ends."""
    some = _LEASE.where(where).limit(SWEEP_BATCH_SIZE).with_for_update(skip_locked=True)
    return list(connection.execute(some).all())


def _release(
    connection: sa.Connection, row: Row, now: int, *, is_unused: bool = False
) -> EndedPart | ChangedPart:
    """Ends the lease of a row: its part is free again, or over where that was its last lease."""
    options = unpack_options(row.options)
    changes = row.changes + write_change(row.serial + 1, LOST, now, row.instance)
    noted = {"serial": row.serial + 1, "changes": changes, "noted_at": now}
    if is_unused:
        change_part(connection, row.part_id, **IS_FREE_AGAIN, **noted)
    elif row.retries < options.retries:
        again = {"retries": row.retries + 1, "free_at": now + options.delay}
        change_part(connection, row.part_id, **IS_FREE_AGAIN, **noted, **again)
    else:
        change_part(connection, row.part_id, **noted)
        return _end(connection, row, lost_part_end(row.instance, row.retries), changes, now)
    return make_changed(row.part_id, row.content, changes)


def _end(connection: sa.Connection, row: Row, end: PartEnd, changes: str, now: int) -> EndedPart:
    change_part(connection, row.part_id, state=ENDED, until=None, expires=None, ended=pack(end), noted_at=now)
    return make_ended(row.part_id, row.content, end, changes)


def _repeat(connection: sa.Connection, row: Row, end: PartEnd) -> bool:
    """A completion that is accepted again stays so: without its lease the part cannot take it along."""
    is_same = as_said(unpack_end(row.ended)) == as_said(end)
    if is_same:
        change_part(connection, row.part_id, lease=None)
    return is_same


def _follow_clock(connection: sa.Connection, now: int) -> None:
    """Where the clock was set back: what has happened has not happened later than now."""
    later = sa.update(queue_parts)
    connection.execute(later.where(_part.claimed_at > now).values(claimed_at=now))
    sooner = {"expires": _part.expires - (_part.published - now), "published": now}
    connection.execute(later.where(_part.published > now).values(sooner))
    delayed = sa.select(_part.part_id, _part.free_at, _part.options)
    for part_id, free_at, options in connection.execute(delayed.where(_IS_FREE, _part.free_at > now)).all():
        change_part(connection, part_id, free_at=min(free_at, now + unpack_options(options).delay))


def _next_look(connection: sa.Connection, now: int) -> int | None:
    looks = sa.select(
        sa.select(sa.func.min(_part.until)).where(_part.until.is_not(None)).scalar_subquery(),
        sa.select(sa.func.min(_part.free_at)).where(_IS_FREE, _part.free_at > now).scalar_subquery(),
        sa.select(sa.func.min(_part.expires)).where(_part.expires.is_not(None)).scalar_subquery(),
    )
    return min((look for look in connection.execute(looks).one() if look is not None), default=None)


def _keep_completion(
    connection: sa.Connection, dialect: Dialect, lease: str, end: PartEnd, limit: int
) -> None:
    """Keeps how a lease was completed, to recognise a repetition; at most about `limit`, for a day."""
    dialect.insert_many(connection, _COMPLETION, [(lease, digest_said(end), end.at)])
    found = connection.scalars(_OLD, {"before": end.at - COMPLETION_KEPT_MS, "limit": limit}).all()
    if found:
        connection.execute(sa.delete(queue_completions).where(_known.place.in_(found)))


def _is_known(connection: sa.Connection, lease: str, end: PartEnd) -> bool:
    """Whether the lease was completed with exactly this end."""
    known = connection.execute(sa.select(_known.digest).where(_known.lease == lease)).scalar()
    return known is not None and bytes(known) == digest_said(end)


def _find_old() -> sa.Select[tuple[int]]:
    """Some of the oldest completions, if they are old or too many."""
    other = queue_completions.alias("other")
    newest = sa.select(sa.func.max(other.c.place)).scalar_subquery()
    oldest = sa.select(other.c.place).order_by(other.c.place).limit(PRUNE_BATCH_SIZE).subquery("oldest")
    is_too_many = _known.place <= newest - sa.bindparam("limit", type_=sa.BigInteger)
    # Those that another node removes at the moment are left to it.
    return (
        sa.select(_known.place)
        .where(_known.place.in_(sa.select(oldest.c.place)))
        .where((_known.at < sa.bindparam("before")) | is_too_many)
        .with_for_update(skip_locked=True)
    )


_OLD = _find_old()
