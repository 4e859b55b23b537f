"""The tables `parts` (what is in queues, who has it, how it ended) and `completions` (how leases ended).

All writes run in the writer's transaction. The functions do what the methods of `ports.queues.Queues` of
similar names document. An accepted completion may be repeated, after a crash too (SPEC section 13), so it is
kept, bounded by age and by number.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler_service.domain.effects import PublishParts, QueueWrite, ReconfigureParts, WithdrawParts
from scheduler_service.domain.leases import Claim, EndedPart, Leased, Rank, Renewed, Sight, Swept
from scheduler_service.domain.parts import (
    PartEnd,
    QueuedPart,
    QueueOptions,
    as_said,
    digest_said,
    write_part_id,
)
from scheduler_service.persistence.common.writes import (
    COMPLETION_KEPT_MS,
    lost_part_end,
    pack,
    unpack_end,
    unpack_options,
    unpack_part,
)

FREE, LEASED, ENDED, CANCELLED = 0, 1, 2, 3
"""`state`: may be claimed; leased; over; leased, but withdrawn by its job."""

SWEEP_BATCH_SIZE = 500
PRUNE_BATCH_SIZE = 10
"""How many old completions may be deleted with each new one, so that no completion pays for many others."""

PARTS = (
    """
    CREATE TABLE parts (
        part_id TEXT PRIMARY KEY,
        uid TEXT NOT NULL,
        execute_number INTEGER NOT NULL,
        request_counts INTEGER NOT NULL,
        step INTEGER NOT NULL,
        total INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        queue TEXT NOT NULL,
        priority INTEGER NOT NULL,
        named INTEGER NOT NULL,
        specific TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        state INTEGER NOT NULL,
        free_at INTEGER NOT NULL,
        instance TEXT,
        lease TEXT,
        until INTEGER,
        retries INTEGER NOT NULL,
        options BLOB NOT NULL,
        content BLOB NOT NULL,
        ended BLOB
    )
    """,
    "CREATE INDEX parts_free ON parts (tenant, queue, priority DESC, named DESC, created_at, part_id) "
    "WHERE state = 0",
    "CREATE INDEX parts_delayed ON parts (free_at) WHERE state = 0",
    "CREATE UNIQUE INDEX parts_lease ON parts (lease) WHERE lease IS NOT NULL",
    "CREATE INDEX parts_until ON parts (until) WHERE until IS NOT NULL",
    "CREATE INDEX parts_step ON parts (uid, execute_number, request_counts, step)",
    "CREATE INDEX parts_ended ON parts (part_id) WHERE state = 2",
)

LEASED_INDEX = ("CREATE INDEX parts_held ON parts (tenant, queue, instance, until) WHERE state = 1",)

COMPLETIONS = (
    "CREATE TABLE completions "
    "(place INTEGER PRIMARY KEY, lease TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, at INTEGER NOT NULL)",
)

_DROP_OLDEST = (
    "DELETE FROM completions WHERE place IN (SELECT place FROM completions ORDER BY place LIMIT ?) "
    "AND (at < ? OR place <= (SELECT max(place) FROM completions) - ?)"
)
_PUBLISH = (
    "INSERT OR IGNORE INTO parts (part_id, uid, execute_number, request_counts, step, total, tenant, queue, "
    "priority, named, specific, created_at, state, free_at, retries, options, content) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?, ?)"
)
_FREE_FOR = (
    "FROM parts INDEXED BY parts_free WHERE state = 0 AND tenant = ?1 AND queue = ?2 AND free_at <= ?3 "
    "AND (named = 0 OR EXISTS (SELECT 1 FROM json_each(specific) WHERE value = ?4)) "
    "AND (total = 1 OR NOT EXISTS (SELECT 1 FROM parts AS other WHERE other.uid = parts.uid "
    "AND other.execute_number = parts.execute_number AND other.request_counts = parts.request_counts "
    "AND other.step = parts.step AND other.instance = ?4 AND other.state IN (1, 2))) "
    "ORDER BY priority DESC, named DESC, created_at, part_id"
)
_STEP = "SELECT total, uid, execute_number, request_counts, step"
_FIND_FREE = f"{_STEP}, part_id, options, content {_FREE_FOR}"
_SHOW_FREE = f"{_STEP}, priority, named, created_at, part_id {_FREE_FOR}"
_COUNT_HELD = (
    "SELECT count(*) FROM parts WHERE state = 1 AND tenant = ? AND queue = ? AND instance = ? AND until > ?"
)
_TAKE = (
    "UPDATE parts SET state = 1, instance = ?, lease = ?, until = ?, free_at = 0 "
    "WHERE part_id = ? AND state = 0"
)
_FREE = "SET state = 0, instance = NULL, lease = NULL, until = NULL"


def write_parts(connection: sqlite3.Connection, writes: Iterable[QueueWrite]) -> None:
    """Publishes, withdraws and reconfigures parts, in the order of `writes`."""
    for write in writes:
        match write:
            case PublishParts(parts=parts):
                connection.executemany(_PUBLISH, [_row(part) for part in parts])
            case WithdrawParts():
                _withdraw(connection, write)
            case ReconfigureParts():
                _reconfigure(connection, write)


def claim_parts(connection: sqlite3.Connection, claim: Claim) -> tuple[Leased, ...]:
    """Of several parts of one step an instance gets one."""
    leased: list[Leased] = []
    for part_id, options, content in _choose(
        connection, _FIND_FREE, claim, _free_capacity(connection, claim)
    ):
        chosen = unpack_options(options)
        lease, until = claim.leases[len(leased)], claim.now + chosen.lease
        connection.execute(_TAKE, (claim.instance, lease, until, part_id))
        part = msgspec.structs.replace(unpack_part(content), options=chosen)
        leased.append(Leased(lease, until, part))
    return tuple(leased)


def look_at_parts(connection: sqlite3.Connection, claim: Claim) -> Sight:
    # The leases are counted last: while claims take turns, their number can only fall in between.
    found = _choose(connection, _SHOW_FREE, claim, len(claim.leases))
    ranks = tuple(Rank(priority, bool(named), *rest) for priority, named, *rest in found)
    return Sight(ranks, _count_held(connection, claim))


def _free_capacity(connection: sqlite3.Connection, claim: Claim) -> int:
    """How many more parts the instance may have; withdrawn ones do not count."""
    if claim.capacity is None:
        return len(claim.leases)
    return min(len(claim.leases), claim.capacity - _count_held(connection, claim))


def _count_held(connection: sqlite3.Connection, claim: Claim) -> int:
    asked = (claim.tenant, claim.queue, claim.instance, claim.now)
    held: int = connection.execute(_COUNT_HELD, asked).fetchone()[0]
    return held


def _choose(connection: sqlite3.Connection, text: str, claim: Claim, most: int) -> list[tuple[Any, ...]]:
    """The parts that it may have, best first; of several parts of one step the first."""
    chosen: list[tuple[Any, ...]] = []
    steps: set[tuple[Any, ...]] = set()
    found = connection.execute(text, (claim.tenant, claim.queue, claim.now, claim.instance))
    while len(chosen) < most and (row := found.fetchone()) is not None:
        total, step = row[0], row[1:5]
        if total == 1 or step not in steps:
            steps.add(step)
            chosen.append(row[5:])
    found.close()  # a cursor that stays open would read while rows are written
    return chosen


def renew_lease(connection: sqlite3.Connection, lease: str, now: int) -> Renewed | None:
    text = (
        "SELECT part_id, state, options, content FROM parts WHERE lease = ? AND state IN (1, 3) AND until > ?"
    )
    row = connection.execute(text, (lease, now)).fetchone()
    if row is None:
        return None
    options = unpack_options(row[2])
    until = now + options.lease
    connection.execute("UPDATE parts SET until = ? WHERE part_id = ?", (until, row[0]))
    part = unpack_part(row[3])
    return Renewed(until, options.lease, options.renew, row[1] == CANCELLED, part.job_id, part.name)


def complete_lease(
    connection: sqlite3.Connection, lease: str, end: PartEnd, now: int, max_completions: int
) -> EndedPart | bool:
    """Of completed leases at most `max_completions` are known afterwards."""
    text = "SELECT part_id, state, until, instance, content, ended FROM parts WHERE lease = ?"
    row = connection.execute(text, (lease,)).fetchone()
    if row is None:
        return _is_known(connection, lease, end)
    part_id, state, until, instance, content, ended = row
    if state == ENDED:
        return as_said(unpack_end(ended)) == as_said(end)
    if until <= now:
        return False
    _keep_completion(connection, lease, end, max_completions)
    if state == CANCELLED:
        connection.execute("DELETE FROM parts WHERE part_id = ?", (part_id,))
        return True
    return _end(connection, part_id, content, msgspec.structs.replace(end, instance=instance))


def sweep_leases(connection: sqlite3.Connection, now: int) -> Swept:
    text = (
        "SELECT part_id, state, retries, instance, options, content FROM parts "
        "WHERE until IS NOT NULL AND until <= ? LIMIT ?"
    )
    ended: list[EndedPart] = []
    for part_id, state, retries, instance, options, content in connection.execute(
        text, (now, SWEEP_BATCH_SIZE)
    ).fetchall():
        chosen = unpack_options(options)
        if state == CANCELLED:
            connection.execute("DELETE FROM parts WHERE part_id = ?", (part_id,))
        elif retries < chosen.retries:
            again = f"UPDATE parts {_FREE}, retries = retries + 1, free_at = ? WHERE part_id = ?"
            connection.execute(again, (now + chosen.delay, part_id))
        else:
            ended.append(_end(connection, part_id, content, lost_part_end(instance, retries)))
    return Swept(tuple(ended), _next_look(connection, now))


def extend_leases(connection: sqlite3.Connection, now: int) -> None:
    rows = connection.execute("SELECT part_id, until, options FROM parts WHERE until IS NOT NULL").fetchall()
    later = [(max(until, now + unpack_options(options).lease), part_id) for part_id, until, options in rows]
    connection.executemany("UPDATE parts SET until = ? WHERE part_id = ?", later)


def drop_part(connection: sqlite3.Connection, part_id: str) -> None:
    connection.execute("DELETE FROM parts WHERE part_id = ? AND state = 2", (part_id,))


def read_ended(connection: sqlite3.Connection, after: str, limit: int) -> list[EndedPart]:
    text = (
        "SELECT part_id, content, ended FROM parts WHERE state = 2 AND part_id > ? ORDER BY part_id LIMIT ?"
    )
    rows = connection.execute(text, (after, limit)).fetchall()
    return [_ended(part_id, content, unpack_end(end)) for part_id, content, end in rows]


def _row(part: QueuedPart) -> tuple[Any, ...]:
    name, options = part.name, part.options
    return (
        write_part_id(name), name.uid, name.execute_number, name.request_counts, name.step, part.total,
        part.tenant, part.queue, options.priority, *_named(options), part.created_at, pack(options),
        pack(part),
    )  # fmt: skip


def _named(options: QueueOptions) -> tuple[int, str]:
    return int(bool(options.specific)), msgspec.json.encode(options.specific).decode()


def _withdraw(connection: sqlite3.Connection, write: WithdrawParts) -> None:
    where = "WHERE uid = ?1 AND execute_number = ?2 AND (?3 = 0 OR request_counts = ?3)"
    asked = (write.uid, write.execute_number, write.request_counts)
    connection.execute(f"DELETE FROM parts {where} AND state IN (0, 2)", asked)  # noqa: S608 - a constant
    connection.execute(f"UPDATE parts SET state = 3 {where} AND state = 1", asked)  # noqa: S608 - a constant


def _reconfigure(connection: sqlite3.Connection, write: ReconfigureParts) -> None:
    """Options apply from the next claim on, those of renewals from the next renewal. The lease of an instance
    that is no longer named ends now; this is not a retry.
    """
    name, options = write.name, write.options
    where = "WHERE uid = ? AND execute_number = ? AND request_counts = ? AND step = ?"
    step = (name.uid, name.execute_number, name.request_counts, name.step)
    named, specific = _named(options)
    connection.execute(
        f"UPDATE parts SET priority = ?, named = ?, specific = ?, options = ? {where}",  # noqa: S608
        (options.priority, named, specific, pack(options), *step),
    )
    if options.specific:
        gone = "AND state = 1 AND instance NOT IN (SELECT value FROM json_each(?))"
        connection.execute(f"UPDATE parts {_FREE} {where} {gone}", (*step, specific))


def _end(connection: sqlite3.Connection, part_id: str, content: bytes, end: PartEnd) -> EndedPart:
    text = "UPDATE parts SET state = 2, until = NULL, ended = ? WHERE part_id = ?"
    connection.execute(text, (pack(end), part_id))
    return _ended(part_id, content, end)


def _ended(part_id: str, content: bytes, end: PartEnd) -> EndedPart:
    part = unpack_part(content)
    return EndedPart(part_id, part.job_id, part.name, end, part.request)


def _keep_completion(connection: sqlite3.Connection, lease: str, end: PartEnd, limit: int) -> None:
    row = (lease, digest_said(end), end.at)
    connection.execute("INSERT OR REPLACE INTO completions (lease, digest, at) VALUES (?, ?, ?)", row)
    connection.execute(_DROP_OLDEST, (PRUNE_BATCH_SIZE, end.at - COMPLETION_KEPT_MS, limit))


def _is_known(connection: sqlite3.Connection, lease: str, end: PartEnd) -> bool:
    """Whether the lease was completed with exactly this end."""
    text = "SELECT digest FROM completions WHERE lease = ?"
    row = connection.execute(text, (lease,)).fetchone()
    return row is not None and row[0] == digest_said(end)


def _next_look(connection: sqlite3.Connection, now: int) -> int | None:
    leased = connection.execute("SELECT min(until) FROM parts WHERE until IS NOT NULL").fetchone()[0]
    text = "SELECT min(free_at) FROM parts WHERE state = 0 AND free_at > ?"
    delayed = connection.execute(text, (now,)).fetchone()[0]
    return min((moment for moment in (leased, delayed) if moment is not None), default=None)
