"""Records that the history may not have, of a service that has its database alone: many turns are one row.

A row of its own for each turn would cost an execution a twentieth more CPU. The row of a group has no uid,
and a number that no other one has; it goes when the history has all its batches. What an earlier start has
left of groups is divided before it is read, into rows of one batch under its key, as jobs may be other
processes' by now.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.packing import pack
from scheduler_service.persistence.job_store.claim_rows import RECORDS, records_of
from scheduler_service.persistence.job_store.job_store_schema import untold
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Row
from scheduler_service.ports.history import Batch

BatchKey = tuple[str, int]
GROUP_UID = ""
"""The uid of rows of groups: no job has it."""
BEHIND_GROUPS: BatchKey = (GROUP_UID, (1 << 63) - 1)
"""All rows of one batch come behind it."""
BOOT_BITS = 32
MOST_BATCHES = 128
MOST_BYTES = 128 << 10
"""What one row of a group has at most; what is larger is a row of its own."""
DIVIDED_AT_ONCE = 16

_after: sa.BindParameter[int] = sa.bindparam("after", type_=sa.BigInteger)
_is_group = (untold.c.uid == GROUP_UID, untold.c.sequence > _after)
_GROUPS = (
    sa.select(untold.c.sequence, untold.c.content)
    .where(*_is_group)
    .order_by(untold.c.sequence)
    .limit(DIVIDED_AT_ONCE)
)
_DROP_GROUP = sa.delete(untold).where(
    untold.c.uid == GROUP_UID, untold.c.sequence == sa.bindparam("number", type_=sa.BigInteger)
)
_decode_batches = msgspec.msgpack.Decoder(list[Batch]).decode


class _Group:
    """A row, and how many of its batches the history has not confirmed."""

    __slots__ = ("key", "left")

    def __init__(self, key: BatchKey, left: int) -> None:
        self.key = key
        self.left = left


class RecordGroups:
    """The rows of this start, the `boot`th over the store. All but `confirm` are called by the writer."""

    def __init__(self, *, boot: int) -> None:
        self._boot = boot
        self._number = boot << BOOT_BITS
        self._planned: list[tuple[_Group, Sequence[Batch]]] = []
        self._groups: dict[BatchKey, _Group] = {}

    def begin(self) -> None:
        """A transaction begins, perhaps once more."""
        self._planned.clear()

    def rows_of(self, batches: Sequence[Batch], holder: Holder) -> list[Row]:
        """The rows of `untold` of the records of a transaction."""
        rows: list[Row] = []
        for start in range(0, len(batches), MOST_BATCHES):
            rows += self._rows_of(batches[start : start + MOST_BATCHES], holder)
        return rows

    def settle(self) -> None:
        """The transaction has been written, or may have been."""
        for group, batches in self._planned:
            for one in batches:
                self._groups[one.uid, one.sequence] = group
        self._planned.clear()

    def confirm(self, keys: Iterable[BatchKey]) -> list[BatchKey]:
        """The keys of the rows that are not needed any more, as the history has these batches."""
        found: list[BatchKey] = []
        groups = self._groups
        for key in keys:
            group = groups.pop(key, None)
            if group is None:
                found.append(key)
                continue
            group.left -= 1
            if not group.left:
                found.append(group.key)
        return found

    def divide(
        self, connection: sa.Connection, dialect: Dialect, owns: Callable[[str], bool], after: int
    ) -> int | None:
        """Divides some groups of other starts that have batches of jobs which this process `owns`.

        They are behind the number `after`. Returns the one to go on behind; None: these were the last.
        """
        found = connection.execute(_GROUPS, {"after": after}).all()
        for number, content in found:
            batches = [] if number >> BOOT_BITS == self._boot else _decode_batches(content)
            # Of processes that begin together one divides a group.
            if any(owns(one.job_id) for one in batches) and (
                connection.execute(_DROP_GROUP, {"number": number}).rowcount
            ):
                dialect.insert_many(connection, RECORDS, records_of(batches, Holder("", "")))
        return None if len(found) < DIVIDED_AT_ONCE else int(found[-1][0])

    def _rows_of(self, batches: Sequence[Batch], holder: Holder) -> list[Row]:
        if len(batches) == 1:
            # A turn that is taken again: the group of its first time was in doubt, and was not written.
            self._groups.pop((batches[0].uid, batches[0].sequence), None)
            return records_of(batches, holder)
        content = pack(batches)
        if len(content) > MOST_BYTES:
            half = len(batches) // 2
            return self._rows_of(batches[:half], holder) + self._rows_of(batches[half:], holder)
        self._number += 1
        self._planned.append((_Group((GROUP_UID, self._number), len(batches)), batches))
        return [(GROUP_UID, self._number, content, holder.node, holder.boot)]
