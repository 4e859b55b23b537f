"""The records of one execution as they are stored, read a few at a time: memory does not grow with them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import TriggeredBy, parse_execution_id
from scheduler_service.domain.records import (
    AttemptEnded,
    Detail,
    Exchange,
    Noted,
    ResultKept,
    StepEnded,
    read_replayed,
)
from scheduler_service.persistence.history.queries import select_entry_sizes, select_notification_sizes
from scheduler_service.persistence.history.schema import deliveries, entries
from scheduler_service.persistence.tables.audit_lines import MOST_BACKFILLED

ROWS = 1_000
"""Rows whose sizes are looked up at once."""
PORTION_ROWS = 64
PORTION_BYTES = 256 << 10
"""So much is read at once, or a single row that is larger."""

_SPLIT = msgspec.msgpack.Decoder(list[tuple[int, int, msgspec.Raw]])
_RECORD: msgspec.msgpack.Decoder[Detail] = msgspec.msgpack.Decoder(Detail)
_PLACE = itemgetter(0, 1)
_TAG_BYTES = 24
"""The tag of a record is the first of its members."""
MOST_REPLAYS = 50
"""So far back replays of replays are followed."""

Place = tuple[int, int]


class StoredRecord(NamedTuple):
    """A record that is not decoded yet, with the turn that wrote it and its number in that turn."""

    sequence: int
    ordinal: int
    raw: msgspec.Raw

    @property
    def place(self) -> Place:
        """The same for each copy of a record that was written twice."""
        return self.sequence, self.ordinal

    def is_a(self, kind: type[Detail | ResultKept]) -> bool:
        """Whether it is a record of this kind."""
        return kind.__name__.encode() in bytes(memoryview(self.raw)[:_TAG_BYTES])

    def decode(self) -> Detail:
        """The record."""
        return _RECORD.decode(self.raw)


def read_newest_first(connection: sa.Connection, uid: str, execute_number: int) -> Iterator[StoredRecord]:
    """Each record of the execution, that of its latest turn first; one that was written twice comes twice.

    Without its result, which is read by `read_result` alone.
    """
    for payload in _read_payloads(connection, uid, execute_number, is_newest_first=True):
        yield from sorted(_without_result(payload), key=_PLACE, reverse=True)


def read_oldest_first(connection: sa.Connection, uid: str, execute_number: int) -> Iterator[StoredRecord]:
    """The same in the order of the turns."""
    for payload in _read_payloads(connection, uid, execute_number, is_newest_first=False):
        yield from sorted(_without_result(payload), key=_PLACE)


def read_notifications(
    connection: sa.Connection,
    uid: str,
    execute_number: int,
    *,
    most: int,
    request_counts: int | None = None,
) -> Iterator[sa.Row[Any]]:
    """The newest deliveries of the execution, or of that attempt, the newest first."""
    sizes = connection.execute(select_notification_sizes(uid, execute_number, most, request_counts)).all()
    yield from read_deliveries(connection, sizes)


def read_deliveries(connection: sa.Connection, sizes: Sequence[Any]) -> Iterator[sa.Row[Any]]:
    """The rows of these deliveries, pairs of id and bytes, in their order."""
    for portion in _portions(sizes):
        wanted = sa.select(deliveries).where(deliveries.c.delivery_id.in_(portion))
        found = {row.delivery_id: row for row in connection.execute(wanted)}
        yield from (found[name] for name in portion)


def split(payload: bytes) -> list[StoredRecord]:
    """The records of one value of the table `entries`, in no order."""
    return [StoredRecord(*entry) for entry in _SPLIT.decode(payload)]


def _without_result(payload: bytes) -> list[StoredRecord]:
    return [stored for stored in split(payload) if not stored.is_a(ResultKept)]


def read_result(connection: sa.Connection, row: Any) -> ResultKept | None:
    """What an execution that succeeded was answered last; None: none was kept, or it was dropped.

    `row` has `uid`, `execute_number` and `sequence`, the turn that ended it.
    """
    for entry in _read_entries(connection, [(row.uid, row.execute_number, row.sequence)]):
        for stored in split(entry.payload):
            if stored.is_a(ResultKept):
                return _RESULT.decode(stored.raw)
    return None


def _read_payloads(
    connection: sa.Connection, uid: str, execute_number: int, *, is_newest_first: bool
) -> Iterator[bytes]:
    after: tuple[int, int] | None = None
    while True:
        selection = select_entry_sizes(uid, execute_number, after, ROWS, is_newest_first=is_newest_first)
        rows = connection.execute(selection).all()
        for portion in _portions([(row.id, row.size) for row in rows]):
            wanted = sa.select(entries.c.id, entries.c.payload).where(entries.c.id.in_(portion))
            found = {row.id: row.payload for row in connection.execute(wanted)}
            for number in portion:
                yield found.pop(number)
        if len(rows) < ROWS:
            return
        after = (rows[-1].first, rows[-1].last)


def _portions(sizes: Sequence[Any]) -> Iterator[list[Any]]:
    """The keys in `sizes`, pairs of key and bytes, in groups that are read at once."""
    portion: list[Any] = []
    total = 0
    for key, size in sizes:
        if portion and (total + size > PORTION_BYTES or len(portion) == PORTION_ROWS):
            yield portion
            portion, total = [], 0
        portion.append(key)
        total += size
    if portion:
        yield portion


Key = tuple[str, int]
Turn = tuple[str, int, int]
"""An execution, and the turn of its job in which it got its state."""
AT_ONCE = 100
_ENDED = msgspec.msgpack.Decoder(AttemptEnded)
_RESULT = msgspec.msgpack.Decoder(ResultKept)


def read_failures(connection: sa.Connection, rows: Iterable[Any]) -> dict[Key, AttemptEnded]:
    """The failed attempt with which each ended, or after which it waits for a retry, as far as kept.

    `rows` have `uid`, `execute_number`, `sequence` and `error`. Only the entries of that turn are read, and
    only this one record of them is decoded.
    """
    keys = [(row.uid, row.execute_number, row.sequence) for row in rows if row.error is not None]
    found: dict[Key, AttemptEnded] = {}
    for some in _groups(keys):
        for row in _read_entries(connection, some):
            ended = _ended_in(row.payload)
            if ended is not None and ended.error is not None:
                found[row.uid, row.execute_number] = ended
    return found


def _read_entries(connection: sa.Connection, turns: Sequence[Turn]) -> sa.CursorResult[Any]:
    """The values of the table that have something of these turns; each is found by the index.

    Of a list of pairs behind IN, SQLite would look at the whole table; as an expression tree this costs five
    times the time.
    """
    numbers = range(len(turns))
    places = " OR ".join(
        f"uid=:u{at} AND execute_number=:n{at} AND last>=:t{at} AND first<=:t{at}" for at in numbers
    )
    values = {f"{name}{at}": value for at in numbers for name, value in zip("unt", turns[at], strict=True)}
    wanted = f"SELECT uid, execute_number, payload FROM entries WHERE {places} ORDER BY last"  # noqa: S608
    return connection.execute(sa.text(wanted), values)


def read_callers(connection: sa.Connection, rows: Iterable[Any]) -> dict[Key, str]:
    """By whom each was triggered, as far as the audit has it; what a timer fired has nobody.

    The line is that of the turn which made the execution, so it is of the same moment; of a backfill it names
    the first one that it made. `rows` have `uid`, `execute_number`, `created_at` and `triggered_by`.
    """
    asked = [row for row in rows if row.triggered_by != TriggeredBy.TIMER]
    found: dict[Key, str] = {}
    for some in (asked[start : start + AT_ONCE] for start in range(0, len(asked), AT_ONCE)):
        lines = _read_triggers(connection, some)
        for row in some:
            of_moment = (line for line in lines if (line.uid, line.at) == (row.uid, row.created_at))
            near = [line for line in of_moment if line.execute_number <= row.execute_number]
            if near:
                found[row.uid, row.execute_number] = max(near, key=_number_of).who
    return found


_number_of = attrgetter("execute_number")


def _read_triggers(connection: sa.Connection, rows: Sequence[Any]) -> Sequence[Any]:
    """Lines of the audit about these executions, of the moment at which they were made, in their order."""
    numbers = range(len(rows))
    places = " OR ".join(
        f"uid=:u{at} AND execute_number BETWEEN :f{at} AND :n{at} AND at=:a{at}" for at in numbers
    )
    values: dict[str, Any] = {}
    for at, row in enumerate(rows):
        before = MOST_BACKFILLED if row.triggered_by == TriggeredBy.BACKFILL else 0
        number = row.execute_number
        values |= {f"u{at}": row.uid, f"f{at}": number - before, f"n{at}": number, f"a{at}": row.created_at}
    wanted = f"SELECT uid, execute_number, at, who FROM audit WHERE {places} ORDER BY LENGTH(id), id"  # noqa: S608
    return connection.execute(sa.text(wanted), values).all()


def _ended_in(payload: bytes) -> AttemptEnded | None:
    """The last end of an attempt in one value of the table."""
    ended = [stored for stored in split(payload) if stored.is_a(AttemptEnded)]
    return _ENDED.decode(max(ended, key=lambda stored: stored.place).raw) if ended else None


def _groups(keys: Sequence[Turn]) -> Iterable[Sequence[Turn]]:
    return (keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE))


def read_last_exchanges(connection: sa.Connection, uid: str, execute_number: int) -> dict[int, Exchange]:
    """By step what the last attempt sent, and before its first what it kept of earlier ones (`retryFrom`),
    and of the execution that it replays from a later step.

    Reads no further back than that needs, and over MOST_REPLAYS replays of replays.
    """
    found = _read_exchanges(connection, uid, execute_number)
    for _ in range(MOST_REPLAYS):
        origin = None if 0 in found else _find_replayed(connection, uid, execute_number)
        if origin is None:
            break
        uid, execute_number, from_step = origin
        first = min((from_step, *found))  # it may have sent nothing
        earlier = _read_exchanges(connection, uid, execute_number)
        found |= {index: one for index, one in earlier.items() if index < first}
    return found


def _find_replayed(connection: sa.Connection, uid: str, execute_number: int) -> tuple[str, int, int] | None:
    """The execution that this one replays (uid, executeNumber), and from which step it does."""
    for stored in read_oldest_first(connection, uid, execute_number):
        note = stored.decode() if stored.is_a(Noted) else None
        if isinstance(note, Noted) and (replayed := read_replayed(note)) is not None:
            parsed = parse_execution_id(replayed[0])
            return None if parsed is None else (*parsed, replayed[1])
        if stored.is_a(StepEnded):
            break
    return None


def _read_exchanges(connection: sa.Connection, uid: str, execute_number: int) -> dict[int, Exchange]:
    found: dict[int, Exchange] = {}
    for _, sent in groupby(
        _steps_newest_first(connection, uid, execute_number), key=attrgetter("request_counts")
    ):
        _add_attempt(found, sent)
        if 0 in found:
            break
    return found


def _add_attempt(found: dict[int, Exchange], sent: Iterable[StepEnded]) -> None:
    """Of an attempt that is earlier than those in `found`, the steps before the first of theirs."""
    first = min(found, default=None)
    for step in sent:
        if first is None or step.index < first:
            found.setdefault(step.index, step.exchange)


def _steps_newest_first(connection: sa.Connection, uid: str, execute_number: int) -> Iterator[StepEnded]:
    """Each step as a whole. A copy of one that came before, written twice after a crash, is passed over."""
    before: Place | None = None
    for stored in read_newest_first(connection, uid, execute_number):
        if not stored.is_a(StepEnded) or (before is not None and stored.place >= before):
            continue
        before = stored.place
        step = stored.decode()
        if isinstance(step, StepEnded) and step.part is None:
            yield step
