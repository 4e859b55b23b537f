"""The records of one execution as they are stored, read a few at a time: memory does not grow with them."""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.records import Detail
from scheduler_service.persistence.history.schema import deliveries, entries
from scheduler_service.persistence.history.selections import select_entry_sizes, select_notification_sizes

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

    def is_a(self, kind: type[Detail]) -> bool:
        """Whether it is a record of this kind."""
        return kind.__name__.encode() in bytes(memoryview(self.raw)[:_TAG_BYTES])

    def copy(self) -> "StoredRecord":
        """The same, which does not hold the rest of its row in memory."""
        return self._replace(raw=self.raw.copy())

    def decode(self) -> Detail:
        """The record."""
        return _RECORD.decode(self.raw)


def read_newest_first(connection: sa.Connection, uid: str, execute_number: int) -> Iterator[StoredRecord]:
    """Each record of the execution, that of its latest turn first; one that was written twice comes twice."""
    for payload in _read_payloads(connection, uid, execute_number, is_newest_first=True):
        yield from sorted(split(payload), key=_PLACE, reverse=True)


def read_oldest_first(connection: sa.Connection, uid: str, execute_number: int) -> Iterator[StoredRecord]:
    """The same in the order of the turns."""
    for payload in _read_payloads(connection, uid, execute_number, is_newest_first=False):
        yield from sorted(split(payload), key=_PLACE)


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
