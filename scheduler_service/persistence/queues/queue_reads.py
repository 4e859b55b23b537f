"""What readers see of the queues: what waits where, who has what, what its jobs have not taken yet."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from scheduler_service.domain.leases import (
    ChangedPart,
    EndedPart,
    HeldPart,
    QueueFigures,
    QueueQuery,
    merge_figures,
)
from scheduler_service.domain.parts import PartEnd
from scheduler_service.persistence.common.packing import read_changes, unpack_end, unpack_part
from scheduler_service.persistence.queues.tables import ENDED, FREE, LEASED, queue_parts

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
