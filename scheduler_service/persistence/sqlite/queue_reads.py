"""Reads of the table `parts`: what waits where, who has what, what its jobs have not taken yet."""

import sqlite3

from scheduler_service.domain.leases import (
    ChangedPart,
    EndedPart,
    HeldPart,
    QueueFigures,
    QueueQuery,
    merge_figures,
)
from scheduler_service.domain.parts import PartEnd
from scheduler_service.persistence.common.writes import read_changes, unpack_end, unpack_part

# Both counts read an index alone, in its order; they stop after the last queue of the page.
_WAITING = (
    "SELECT queue, count(*), min(created_at) FROM parts INDEXED BY parts_free "
    "WHERE state = 0 AND tenant = ? AND queue {} ? GROUP BY queue ORDER BY queue LIMIT ?"
)
_LEASED = (
    "SELECT queue, count(*) FROM parts INDEXED BY parts_held "
    "WHERE state = 1 AND tenant = ? AND queue {} ? GROUP BY queue ORDER BY queue LIMIT ?"
)
_HELD = (
    "SELECT part_id, content, instance, until FROM parts INDEXED BY parts_held "
    "WHERE state = 1 AND tenant = ? AND queue = ? AND part_id > ? ORDER BY part_id LIMIT ?"
)


def read_figures(connection: sqlite3.Connection, query: QueueQuery) -> list[QueueFigures]:
    comparison, name = (">", query.after) if query.name is None else ("=", query.name)
    asked = (query.tenant, name, query.limit)
    waiting = connection.execute(_WAITING.format(comparison), asked).fetchall()
    leased = connection.execute(_LEASED.format(comparison), asked).fetchall()
    found = [QueueFigures(queue, depth, oldest) for queue, depth, oldest in waiting]
    found += [QueueFigures(queue, held=held) for queue, held in leased]
    return merge_figures(found, query.limit)


def read_held(connection: sqlite3.Connection, query: QueueQuery) -> list[HeldPart]:
    asked = (query.tenant, query.name, query.after, query.limit)
    found: list[HeldPart] = []
    for part_id, content, instance, until in connection.execute(_HELD, asked):
        part = unpack_part(content)
        found.append(HeldPart(part_id, part.job_id, part.name, part.total, instance, until))
    return found


def read_ended(connection: sqlite3.Connection, after: str, limit: int) -> list[EndedPart]:
    text = (
        "SELECT part_id, content, ended, changes FROM parts "
        "WHERE state = 2 AND part_id > ? ORDER BY part_id LIMIT ?"
    )
    rows = connection.execute(text, (after, limit)).fetchall()
    return [make_ended(part_id, content, unpack_end(end), changes) for part_id, content, end, changes in rows]


def read_changed(connection: sqlite3.Connection, after: str, limit: int) -> list[ChangedPart]:
    text = (
        "SELECT part_id, content, changes FROM parts INDEXED BY parts_changed "
        "WHERE changes <> '' AND state <> 2 AND part_id > ? ORDER BY part_id LIMIT ?"
    )
    return [make_changed(*row) for row in connection.execute(text, (after, limit)).fetchall()]


def make_ended(part_id: str, content: bytes, end: PartEnd, changes: str) -> EndedPart:
    """A part that is over."""
    part = unpack_part(content)
    return EndedPart(part_id, part.job_id, part.name, end, part.request, read_changes(changes))


def make_changed(part_id: str, content: bytes, changes: str) -> ChangedPart:
    """A part that is not over, with its lease changes."""
    part = unpack_part(content)
    return ChangedPart(part_id, part.job_id, part.name, read_changes(changes))
