"""Writes to the tables `parts` and `completions` (`queue_tables`).

All writes run in the writer's transaction. The functions do what the methods of `ports.queues.Queues` of
similar names document.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler_service.domain.effects import (
    AcceptChanges,
    PublishParts,
    QueueWrite,
    ReconfigureParts,
    WithdrawParts,
)
from scheduler_service.domain.leases import (
    CLAIMED,
    DOWNTIME_GRACE_MS,
    LOST,
    ChangedPart,
    Claim,
    EndedPart,
    Freeing,
    Leased,
    Renewed,
    Swept,
)
from scheduler_service.domain.parts import (
    PartEnd,
    QueuedPart,
    QueueOptions,
    as_said,
    end_of_unclaimed,
    write_part_id,
)
from scheduler_service.persistence.common.writes import (
    lost_part_end,
    pack,
    read_changes,
    unpack_end,
    unpack_options,
    unpack_part,
    write_change,
)
from scheduler_service.persistence.sqlite.queue_choice import choose_parts, read_first_claim
from scheduler_service.persistence.sqlite.queue_completions import (
    forget_completion,
    is_known_completion,
    keep_completion,
)
from scheduler_service.persistence.sqlite.queue_reads import make_changed, make_ended

FREE, LEASED, ENDED, CANCELLED = 0, 1, 2, 3
"""`state`: may be claimed; leased; over; leased, but withdrawn by its job."""

SWEEP_BATCH_SIZE = 500

_PUBLISH = (
    "INSERT OR IGNORE INTO parts (part_id, uid, execute_number, request_counts, step, total, tenant, queue, "
    "priority, named, specific, created_at, state, free_at, retries, options, content, published, expires) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?, ?, ?, ?)"
)
_TAKE = (
    "UPDATE parts SET state = 1, instance = ?, lease = ?, until = ?, free_at = 0, expires = NULL, "
    "serial = serial + 1, changes = ?, claimed_at = coalesce(claimed_at, ?) WHERE part_id = ? AND state = 0"
)
_CHANGE = "UPDATE parts SET serial = serial + 1, changes = ? WHERE part_id = ?"
_ACCEPT = "UPDATE parts SET changes = '' WHERE part_id = ? AND serial = ?"
_LEASED = "SELECT part_id, state, retries, instance, options, content, serial, changes FROM parts"
_UNCLAIMED = "state = 0 AND claimed_at IS NULL AND published IS NOT NULL"
_FREE = "SET state = 0, instance = NULL, lease = NULL, until = NULL"


def write_parts(connection: sqlite3.Connection, writes: Iterable[QueueWrite]) -> None:
    """Publishes, withdraws and reconfigures parts, in the order of `writes`."""
    for write in writes:
        match write:
            case PublishParts(parts=parts):
                connection.executemany(_PUBLISH, map(_row, parts))  # one at a time: each has a body
            case WithdrawParts():
                _withdraw(connection, write)
            case ReconfigureParts():
                _reconfigure(connection, write)
            case AcceptChanges(name=name, serial=serial):
                # A newer change keeps all of them; the job ignores those that it has acknowledged.
                connection.execute(_ACCEPT, (write_part_id(name), serial))


def claim_parts(connection: sqlite3.Connection, claim: Claim) -> tuple[Leased, ...]:
    """Of several parts of one step an instance gets one."""
    leased: list[Leased] = []
    for part_id, options, content, serial, changes in choose_parts(connection, claim):
        chosen = unpack_options(options)
        lease, until = claim.leases[len(leased)], claim.now + chosen.lease
        changes += write_change(serial + 1, CLAIMED, claim.now, claim.instance)
        connection.execute(_TAKE, (claim.instance, lease, until, changes, claim.now, part_id))
        part = msgspec.structs.replace(unpack_part(content), options=chosen)
        first = read_first_claim(connection, part.name)
        leased.append(Leased(lease, until, part, read_changes(changes), first))
    return tuple(leased)


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
    text = "SELECT part_id, state, until, instance, content, ended, changes FROM parts WHERE lease = ?"
    row = connection.execute(text, (lease,)).fetchone()
    if row is None:
        return is_known_completion(connection, lease, end)
    part_id, state, until, instance, content, ended, changes = row
    if state == ENDED:
        return _repeat(connection, part_id, is_same=as_said(unpack_end(ended)) == as_said(end))
    if until <= now:
        return False
    end = msgspec.structs.replace(end, instance=instance)
    if state == CANCELLED:
        connection.execute("DELETE FROM parts WHERE part_id = ?", (part_id,))
        return msgspec.structs.replace(make_ended(part_id, content, end, ""), is_withdrawn=True)
    keep_completion(connection, lease, end, max_completions)
    return _end(connection, part_id, content, end, changes)


def free_part(connection: sqlite3.Connection, freeing: Freeing) -> Swept | None:
    text = (
        f"{_LEASED} WHERE part_id = ?1 AND tenant = ?2 AND queue = ?3 AND state = 1 AND until > ?4 "
        "AND (?5 IS NULL OR lease = ?5)"
    )
    asked = (freeing.part_id, freeing.tenant, freeing.queue, freeing.now, freeing.lease)
    row = connection.execute(text, asked).fetchone()
    if row is None:
        return None
    released = _release(connection, row, freeing.now, is_unused=freeing.lease is not None)
    look = _next_look(connection, freeing.now)
    return Swept((released,), look) if isinstance(released, EndedPart) else Swept((), look, (released,))


def sweep_leases(connection: sqlite3.Connection, now: int) -> Swept:
    text = f"{_LEASED} WHERE until IS NOT NULL AND until <= ? LIMIT ?"
    ended: list[EndedPart] = []
    freed: list[ChangedPart] = []
    for row in connection.execute(text, (now, SWEEP_BATCH_SIZE)).fetchall():
        part_id, state, *_ = row
        if state == CANCELLED:
            connection.execute("DELETE FROM parts WHERE part_id = ?", (part_id,))
            continue
        released = _release(connection, row, now)
        if isinstance(released, EndedPart):
            ended.append(released)
        else:
            freed.append(released)
    ended += _end_unclaimed(connection, now)
    return Swept(tuple(ended), _next_look(connection, now), tuple(freed))


def _release(
    connection: sqlite3.Connection, row: tuple[Any, ...], now: int, *, is_unused: bool = False
) -> EndedPart | ChangedPart:
    """Ends the lease of a row of `_LEASED`: its part is free again, or over where that was its last lease."""
    part_id, _, retries, instance, options, content, serial, changes = row
    chosen = unpack_options(options)
    changes += write_change(serial + 1, LOST, now, instance)
    connection.execute(_CHANGE, (changes, part_id))
    if is_unused:
        connection.execute(f"UPDATE parts {_FREE} WHERE part_id = ?", (part_id,))
    elif retries < chosen.retries:
        again = f"UPDATE parts {_FREE}, retries = retries + 1, free_at = ? WHERE part_id = ?"
        connection.execute(again, (now + chosen.delay, part_id))
    else:
        return _end(connection, part_id, content, lost_part_end(instance, retries), changes)
    return make_changed(part_id, content, changes)


def _end_unclaimed(connection: sqlite3.Connection, now: int) -> list[EndedPart]:
    """Ends the parts that nobody has claimed within their queue timeout."""
    text = "SELECT part_id, options, content FROM parts WHERE expires IS NOT NULL AND expires <= ? LIMIT ?"
    return [
        _end(connection, part_id, content, end_of_unclaimed(unpack_options(options).queue_timeout), "")
        for part_id, options, content in connection.execute(text, (now, SWEEP_BATCH_SIZE)).fetchall()
    ]


def extend_leases(connection: sqlite3.Connection, now: int) -> None:
    rows = connection.execute("SELECT part_id, options FROM parts WHERE until IS NOT NULL").fetchall()
    anew = [(now + unpack_options(options).lease, part_id) for part_id, options in rows]
    connection.executemany("UPDATE parts SET until = ? WHERE part_id = ?", anew)
    _follow_clock(connection, now)
    text = "SELECT part_id, expires, options FROM parts WHERE expires IS NOT NULL AND expires < ?"
    soon = connection.execute(text, (now + DOWNTIME_GRACE_MS,)).fetchall()
    waits = [
        (max(expires, now + min(unpack_options(options).queue_timeout, DOWNTIME_GRACE_MS)), part_id)
        for part_id, expires, options in soon
    ]
    connection.executemany("UPDATE parts SET expires = ? WHERE part_id = ?", waits)


def _follow_clock(connection: sqlite3.Connection, now: int) -> None:
    """Where the clock was set back: what has happened has not happened later than now."""
    connection.execute("UPDATE parts SET claimed_at = ?1 WHERE claimed_at > ?1", (now,))
    connection.execute(
        "UPDATE parts SET expires = expires - (published - ?1), published = ?1 WHERE published > ?1", (now,)
    )
    text = "SELECT part_id, free_at, options FROM parts WHERE state = 0 AND free_at > ?"
    delayed = connection.execute(text, (now,)).fetchall()
    sooner = [
        (min(free_at, now + unpack_options(options).delay), part_id) for part_id, free_at, options in delayed
    ]
    connection.executemany("UPDATE parts SET free_at = ? WHERE part_id = ?", sooner)


def hold_queue(connection: sqlite3.Connection, tenant: str, queue: str, now: int) -> None:
    where = "WHERE expires IS NOT NULL AND expires <= ? AND tenant = ? AND queue = ?"
    connection.execute(f"UPDATE parts SET expires = NULL {where}", (now, tenant, queue))  # noqa: S608


def go_on_with_queue(connection: sqlite3.Connection, tenant: str, queue: str, since: int, now: int) -> None:
    """`published` moves along, since the queue timeout counts from it."""
    where = f"WHERE {_UNCLAIMED} AND tenant = ? AND queue = ?"
    text = f"SELECT part_id, published, options FROM parts {where}"  # noqa: S608 - a constant
    anew: list[tuple[int, int, str]] = []
    for part_id, published, options in connection.execute(text, (tenant, queue)).fetchall():
        began = now - max(since - published, 0)
        anew.append((began, began + unpack_options(options).queue_timeout, part_id))
    connection.executemany("UPDATE parts SET published = ?, expires = ? WHERE part_id = ?", anew)


def drop_part(connection: sqlite3.Connection, part_id: str) -> None:
    forget_completion(connection, part_id)
    connection.execute("DELETE FROM parts WHERE part_id = ? AND state = 2", (part_id,))


def _row(part: QueuedPart) -> tuple[Any, ...]:
    name, options = part.name, part.options
    return (
        write_part_id(name), name.uid, name.execute_number, name.request_counts, name.step, part.total,
        part.tenant, part.queue, options.priority, *_named(options), part.created_at, pack(options),
        pack(part), part.published,
        None if part.published is None else part.published + options.queue_timeout,
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
        "UPDATE parts SET priority = ?, named = ?, specific = ?, options = ?, "  # noqa: S608 - a constant
        f"expires = CASE WHEN expires IS NULL THEN NULL ELSE published + ? END {where}",
        (options.priority, named, specific, pack(options), options.queue_timeout, *step),
    )
    if options.specific:
        gone = "AND state = 1 AND instance NOT IN (SELECT value FROM json_each(?))"
        connection.execute(f"UPDATE parts {_FREE} {where} {gone}", (*step, specific))


def _repeat(connection: sqlite3.Connection, part_id: str, *, is_same: bool) -> bool:
    """A completion that is accepted again stays so: without its lease the part cannot take it along."""
    if is_same:
        connection.execute("UPDATE parts SET lease = NULL WHERE part_id = ?", (part_id,))
    return is_same


def _end(
    connection: sqlite3.Connection, part_id: str, content: bytes, end: PartEnd, changes: str
) -> EndedPart:
    text = "UPDATE parts SET state = 2, until = NULL, expires = NULL, ended = ? WHERE part_id = ?"
    connection.execute(text, (pack(end), part_id))
    return make_ended(part_id, content, end, changes)


def _next_look(connection: sqlite3.Connection, now: int) -> int | None:
    leased = connection.execute("SELECT min(until) FROM parts WHERE until IS NOT NULL").fetchone()[0]
    text = "SELECT min(free_at) FROM parts WHERE state = 0 AND free_at > ?"
    delayed = connection.execute(text, (now,)).fetchone()[0]
    expiring = connection.execute("SELECT min(expires) FROM parts WHERE expires IS NOT NULL").fetchone()[0]
    return min((moment for moment in (leased, delayed, expiring) if moment is not None), default=None)
