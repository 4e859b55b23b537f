"""Why executions failed: the end of their last attempt, as it was written in the turn that failed them."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.records import AttemptEnded
from scheduler_service.persistence.history.stored_records import split

Key = tuple[str, int]
Turn = tuple[str, int, int]
"""An execution, and the turn of its job in which it got its state."""
AT_ONCE = 100
_ENDED = msgspec.msgpack.Decoder(AttemptEnded)


def read_failures(connection: sa.Connection, rows: Iterable[Any]) -> dict[Key, AttemptEnded]:
    """The failed attempt with which each ended, or after which it waits for a retry, as far as kept.

    `rows` have `uid`, `execute_number`, `sequence` and `error`. Only the entries of that turn are read, and
    only this one record of them is decoded.
    """
    keys = [(row.uid, row.execute_number, row.sequence) for row in rows if row.error is not None]
    found: dict[Key, AttemptEnded] = {}
    for some in _batches(keys):
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


def _ended_in(payload: bytes) -> AttemptEnded | None:
    """The last end of an attempt in one value of the table."""
    ended = [stored for stored in split(payload) if stored.is_a(AttemptEnded)]
    return _ENDED.decode(max(ended, key=lambda stored: stored.place).raw) if ended else None


def _batches(keys: Sequence[Turn]) -> Iterable[Sequence[Turn]]:
    return (keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE))
