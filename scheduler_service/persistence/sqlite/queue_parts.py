"""The table `parts`: what lies in queues, who has it, and how it ended. Runs in the writer's transaction."""

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler_service.domain.effects import PublishParts, QueueWrite, ReconfigureParts, WithdrawParts
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.leases import Claim, EndedPart, Leased, Rank, Renewed, Sight, Swept
from scheduler_service.domain.parts import PartEnd, QueuedPart, QueueOptions, as_said, write_part_id
from scheduler_service.persistence.sqlite.completions import is_known, keep_completion

FREE, LEASED, ENDED, CANCELLED = 0, 1, 2, 3
"""`state`: for anybody; in somebody's hands; over; in somebody's hands, and nobody awaits it."""

AT_ONCE = 500
LOST = "timeout"

TABLE = (
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

HELD = ("CREATE INDEX parts_held ON parts (tenant, queue, instance, until) WHERE state = 1",)

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

_encode = msgspec.msgpack.Encoder().encode
_read_options = msgspec.msgpack.Decoder(QueueOptions).decode
_read_part = msgspec.msgpack.Decoder(QueuedPart).decode
_read_end = msgspec.msgpack.Decoder(PartEnd).decode


def write_parts(connection: sqlite3.Connection, writes: Iterable[QueueWrite]) -> None:
    """What turns have published, withdrawn and reconfigured, in their order."""
    for write in writes:
        match write:
            case PublishParts(parts=parts):
                connection.executemany(_PUBLISH, [_row(part) for part in parts])
            case WithdrawParts():
                _withdraw(connection, write)
            case ReconfigureParts():
                _reconfigure(connection, write)


def claim_parts(connection: sqlite3.Connection, claim: Claim) -> tuple[Leased, ...]:
    """As in `ports.instances.Queues`; of several parts of one step an instance gets one."""
    leased: list[Leased] = []
    for part_id, options, content in _choose(connection, _FIND_FREE, claim, _room(connection, claim)):
        chosen = _read_options(options)
        lease, until = claim.leases[len(leased)], claim.now + chosen.lease
        connection.execute(_TAKE, (claim.instance, lease, until, part_id))
        part = msgspec.structs.replace(_read_part(content), options=chosen)
        leased.append(Leased(lease, until, part))
    return tuple(leased)


def look_at_parts(connection: sqlite3.Connection, claim: Claim) -> Sight:
    """As in `ports.instances.ShareQueues`."""
    # What is held is counted last: meanwhile it may only have become less.
    found = _choose(connection, _SHOW_FREE, claim, len(claim.leases))
    ranks = tuple(Rank(priority, bool(named), *rest) for priority, named, *rest in found)
    return Sight(ranks, _count_held(connection, claim))


def _room(connection: sqlite3.Connection, claim: Claim) -> int:
    """How many parts it may have more; what was withdrawn from it takes no room."""
    if claim.capacity is None:
        return len(claim.leases)
    return min(len(claim.leases), claim.capacity - _count_held(connection, claim))


def _count_held(connection: sqlite3.Connection, claim: Claim) -> int:
    asked = (claim.tenant, claim.queue, claim.instance, claim.now)
    held: int = connection.execute(_COUNT_HELD, asked).fetchone()[0]
    return held


def _choose(connection: sqlite3.Connection, text: str, claim: Claim, most: int) -> list[tuple[Any, ...]]:
    """What it may have, best first; of several parts of a step one, whatever lies behind them."""
    chosen: list[tuple[Any, ...]] = []
    steps: set[tuple[Any, ...]] = set()
    found = connection.execute(text, (claim.tenant, claim.queue, claim.now, claim.instance))
    while len(chosen) < most and (row := found.fetchone()) is not None:
        total, step = row[0], row[1:5]
        if total == 1 or step not in steps:
            steps.add(step)
            chosen.append(row[5:])
    found.close()  # a read that stays open would stand beside the writes
    return chosen


def renew_lease(connection: sqlite3.Connection, lease: str, now: int) -> Renewed | None:
    """As in `ports.instances.Queues`."""
    text = (
        "SELECT part_id, state, options, content FROM parts WHERE lease = ? AND state IN (1, 3) AND until > ?"
    )
    row = connection.execute(text, (lease, now)).fetchone()
    if row is None:
        return None
    options = _read_options(row[2])
    until = now + options.lease
    connection.execute("UPDATE parts SET until = ? WHERE part_id = ?", (until, row[0]))
    part = _read_part(row[3])
    return Renewed(until, options.lease, options.renew, row[1] == CANCELLED, part.job_id, part.name)


def complete_lease(
    connection: sqlite3.Connection, lease: str, end: PartEnd, now: int, keeps: int
) -> EndedPart | bool:
    """As in `ports.instances.Queues`; of completed leases `keeps` are known afterwards."""
    text = "SELECT part_id, state, until, instance, content, ended FROM parts WHERE lease = ?"
    row = connection.execute(text, (lease,)).fetchone()
    if row is None:
        return is_known(connection, lease, end)
    part_id, state, until, instance, content, ended = row
    if state == ENDED:
        return as_said(_read_end(ended)) == as_said(end)
    if until <= now:
        return False
    keep_completion(connection, lease, end, keeps)
    if state == CANCELLED:
        connection.execute("DELETE FROM parts WHERE part_id = ?", (part_id,))
        return True
    return _end(connection, part_id, content, msgspec.structs.replace(end, instance=instance))


def sweep_leases(connection: sqlite3.Connection, now: int) -> Swept:
    """As in `ports.instances.Queues`."""
    text = (
        "SELECT part_id, state, retries, instance, options, content FROM parts "
        "WHERE until IS NOT NULL AND until <= ? LIMIT ?"
    )
    ended: list[EndedPart] = []
    for part_id, state, retries, instance, options, content in connection.execute(
        text, (now, AT_ONCE)
    ).fetchall():
        chosen = _read_options(options)
        if state == CANCELLED:
            connection.execute("DELETE FROM parts WHERE part_id = ?", (part_id,))
        elif retries < chosen.retries:
            again = f"UPDATE parts {_FREE}, retries = retries + 1, free_at = ? WHERE part_id = ?"
            connection.execute(again, (now + chosen.delay, part_id))
        else:
            ended.append(_end(connection, part_id, content, lose_part(instance, retries)))
    return Swept(tuple(ended), _next_look(connection, now))


def extend_leases(connection: sqlite3.Connection, now: int) -> None:
    """As in `ports.instances.Queues`."""
    rows = connection.execute("SELECT part_id, until, options FROM parts WHERE until IS NOT NULL").fetchall()
    later = [(max(until, now + _read_options(options).lease), part_id) for part_id, until, options in rows]
    connection.executemany("UPDATE parts SET until = ? WHERE part_id = ?", later)


def drop_part(connection: sqlite3.Connection, part_id: str) -> None:
    """As in `ports.instances.Queues`."""
    connection.execute("DELETE FROM parts WHERE part_id = ? AND state = 2", (part_id,))


def read_ended(connection: sqlite3.Connection, after: str, limit: int) -> list[EndedPart]:
    """As in `ports.instances.Queues`."""
    text = (
        "SELECT part_id, content, ended FROM parts WHERE state = 2 AND part_id > ? ORDER BY part_id LIMIT ?"
    )
    rows = connection.execute(text, (after, limit)).fetchall()
    return [_ended(part_id, content, _read_end(end)) for part_id, content, end in rows]


def _row(part: QueuedPart) -> tuple[Any, ...]:
    name, options = part.name, part.options
    return (
        write_part_id(name), name.uid, name.execute_number, name.request_counts, name.step, part.total,
        part.tenant, part.queue, options.priority, *_named(options), part.created_at, _encode(options),
        _encode(part),
    )  # fmt: skip


def _named(options: QueueOptions) -> tuple[int, str]:
    return int(bool(options.specific)), msgspec.json.encode(options.specific).decode()


def _withdraw(connection: sqlite3.Connection, write: WithdrawParts) -> None:
    where = "WHERE uid = ?1 AND execute_number = ?2 AND (?3 = 0 OR request_counts = ?3)"
    asked = (write.uid, write.execute_number, write.request_counts)
    connection.execute(f"DELETE FROM parts {where} AND state IN (0, 2)", asked)  # noqa: S608 - a constant
    connection.execute(f"UPDATE parts SET state = 3 {where} AND state = 1", asked)  # noqa: S608 - a constant


def _reconfigure(connection: sqlite3.Connection, write: ReconfigureParts) -> None:
    """Options from the next claim on, those of the renewal from the next renewal; the lease of who is no
    longer named ends now, and is no retry.
    """
    name, options = write.name, write.options
    where = "WHERE uid = ? AND execute_number = ? AND request_counts = ? AND step = ?"
    step = (name.uid, name.execute_number, name.request_counts, name.step)
    named, specific = _named(options)
    connection.execute(
        f"UPDATE parts SET priority = ?, named = ?, specific = ?, options = ? {where}",  # noqa: S608
        (options.priority, named, specific, _encode(options), *step),
    )
    if options.specific:
        gone = "AND state = 1 AND instance NOT IN (SELECT value FROM json_each(?))"
        connection.execute(f"UPDATE parts {_FREE} {where} {gone}", (*step, specific))


def _end(connection: sqlite3.Connection, part_id: str, content: bytes, end: PartEnd) -> EndedPart:
    text = "UPDATE parts SET state = 2, until = NULL, ended = ? WHERE part_id = ?"
    connection.execute(text, (_encode(end), part_id))
    return _ended(part_id, content, end)


def _ended(part_id: str, content: bytes, end: PartEnd) -> EndedPart:
    part = _read_part(content)
    return EndedPart(part_id, part.job_id, part.name, end, part.request)


def lose_part(instance: str, retries: int) -> PartEnd:
    """The end of a part whose last lease ended without a sign of life."""
    text = f"instance {instance} gave no sign of life within its lease, after {retries} unexpected retries"
    return PartEnd(error=LOST, failure_type=FailureType.TIMEOUT, message=text, instance=instance)


def _next_look(connection: sqlite3.Connection, now: int) -> int | None:
    leased = connection.execute("SELECT min(until) FROM parts WHERE until IS NOT NULL").fetchone()[0]
    text = "SELECT min(free_at) FROM parts WHERE state = 0 AND free_at > ?"
    delayed = connection.execute(text, (now,)).fetchone()[0]
    return min((moment for moment in (leased, delayed) if moment is not None), default=None)
