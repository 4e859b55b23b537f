"""The one writer: all writes that wait are one group, one transaction, and one call of the event loop."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator

from scheduler_service.domain.effects import Delivery
from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.common.group_thread import GroupThread, Verdict, Weights
from scheduler_service.persistence.sql.sqlite import SqliteDialect, driver_error
from scheduler_service.persistence.sqlite.commit_group import BatchKey, CommitGroup, Settle, Write
from scheduler_service.persistence.sqlite.files import Files
from scheduler_service.persistence.sqlite.row_versions import RowVersions
from scheduler_service.persistence.sqlite.rows import LARGE_BYTES
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Commit

# Errors of one write's values, not of the file: the other writes of the group may go on.
_ONE_WRITES_FAULT = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)

GROUP_BYTES = 4 << 20
"""So many bytes a group has at most, or one write alone: being written, it takes three times as much."""
LARGE_GROUP_BYTES = 1 << 20
"""So many bytes of large writes are put into a group with small ones, which wait until it is written."""

OnTrouble = Callable[[str | None], None]
"""Is told what is wrong whenever nothing can be written, and None when it can again, on the loop's thread."""

CALM_SECONDS = 1.0
"""How long writing has not failed before it counts as possible again: a full disk takes some writes."""


class Writer:
    """Writes in the order of `put`, in groups of at most `size`, one after the other.

    A write that conflicts, or that cannot be stored, fails alone. When the group cannot be written, each of
    its writes raises StoreUnavailable and nothing was written; where the outcome of the transaction is
    unknown, each raises StoreUncertain. The next group is tried afresh. `put` and `put_all` are those of its
    thread.
    """

    def __init__(
        self,
        *,
        files: Files,
        size: int,
        faults: FaultPoints | None,
        loop: asyncio.AbstractEventLoop,
        on_trouble: OnTrouble | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = files.writing
        self.dialect = SqliteDialect.over(files.writing, subject=files.place)
        self._statements = self.dialect.engine.connect()
        self._confirmed: set[BatchKey] = set()
        self._row_versions = RowVersions()
        self._place = files.place
        self._guard = files.guard
        self._faults = faults
        self._written = files.note_write
        self._loop = loop
        self._on_trouble = on_trouble
        self._clock = clock
        self._failed_at: float | None = None
        self._trouble: Exception | None = None
        self._thread: GroupThread[Write] = GroupThread(
            name="state-writer", serve=self._serve, size=size, loop=loop,
            weights=Weights(weigh, LARGE_BYTES, LARGE_GROUP_BYTES),
        )  # fmt: skip
        self.put, self.put_all = self._thread.put, self._thread.put_all
        self.groups = self._thread.groups

    @property
    def waiting(self) -> int:
        """About how many calls of `put` and `put_all` are not in a group yet."""
        return self._thread.waiting

    async def close(self) -> None:
        """Writes what was put in; ends the thread, and leaves the file open. A second call waits with it."""
        await self._thread.close()
        self._statements.close()

    def _serve(self, writes: list[Write]) -> list[Verdict]:
        self._trouble = None
        with self._guard:
            verdicts = [one for part in divide(writes, self._thread.weight) for one in self._write(part)]
        self._note()
        return verdicts

    def _note(self) -> None:
        """Tells of each group that could not be written, and when writing works again."""
        if self._trouble is not None:
            self._failed_at = self._clock()
            self._tell(f"{self._place}: {self._trouble}")
        elif self._failed_at is not None and self._clock() - self._failed_at >= CALM_SECONDS:
            self._failed_at = None
            self._tell(None)

    def _tell(self, trouble: str | None) -> None:
        if self._on_trouble is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed before the store
                self._loop.call_soon_threadsafe(self._on_trouble, trouble)

    def _write(self, writes: list[Write]) -> list[Verdict]:
        try:
            self._before(FaultPoint.BEGIN)
            self._connection.execute("BEGIN IMMEDIATE")
            self._after(FaultPoint.BEGIN)
            self._before(FaultPoint.WRITE)
            group = CommitGroup(
                connection=self._connection,
                statements=self._statements,
                dialect=self.dialect,
                confirmed=self._confirmed,
                row_versions=self._row_versions,
                writes=writes,
            )
            verdicts = [group.take(write) for write in writes]
            group.flush()
            self._after(FaultPoint.WRITE)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of each write
            self._roll_back()
            return self._refuse(writes, driver_error(error))
        return self._make_durable(group, verdicts)

    def _refuse(self, writes: list[Write], error: Exception) -> list[Verdict]:
        hits_all = isinstance(error, sqlite3.Error) and not isinstance(error, _ONE_WRITES_FAULT)
        if hits_all:
            self._trouble = error
        if hits_all or len(writes) == 1:
            return [_not_written(self._place, error) for _ in writes]
        # One of them cannot be stored: halving finds it, and the others are written.
        half = len(writes) // 2
        return self._write(writes[:half]) + self._write(writes[half:])

    def _make_durable(self, group: CommitGroup, verdicts: list[Verdict]) -> list[Verdict]:
        try:
            self._before(FaultPoint.COMMIT)
            self._connection.execute("COMMIT")
            self._after(FaultPoint.COMMIT)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of each write
            # On a full disk the last page, without which the group does not count, cannot have been written;
            # and a transaction that is still open did not end. Any other group may be there after a crash.
            self._trouble = error
            known = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            known = known or self._connection.in_transaction
            self._roll_back()
            if not known:
                self._row_versions.clear()
            fail = _not_written if known else _outcome_unknown
            return [
                verdict if isinstance(verdict, Exception) else fail(self._place, error)
                for verdict in verdicts
            ]
        group.settle()
        self._written(group.size)
        return verdicts

    def _roll_back(self) -> None:
        # SQLite may have rolled back by itself, as it does when the disk is full.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _before(self, point: FaultPoint) -> None:
        if self._faults is not None:
            self._faults.before(point)

    def _after(self, point: FaultPoint) -> None:
        if self._faults is not None:
            self._faults.after(point)


def _not_written(place: str, error: Exception) -> StoreUnavailable:
    """A write to the store at `place` failed before it could have an effect."""
    return StoreUnavailable(f"Nothing was written to {place}: {error}.")


def _outcome_unknown(place: str, error: Exception) -> StoreUncertain:
    """A write failed after it may have been made durable."""
    return StoreUncertain(f"Whether {place} holds the write is unknown: {error}. Load before you write.")


def divide(writes: list[Write], weight: int) -> Iterable[list[Write]]:
    """The same writes in their order, in groups that are written one after the other.

    `weight`: what `weigh` says of all of them together.
    """
    return (writes,) if weight <= GROUP_BYTES else _divide(writes)


def _divide(writes: list[Write]) -> Iterator[list[Write]]:
    start = size = 0
    for place, write in enumerate(writes):
        own = weigh(write)
        if size and size + own > GROUP_BYTES:
            yield writes[start:place]
            start, size = place, 0
        size += own
    yield writes[start:] if start else writes


def weigh(write: Write) -> int:
    """About the bytes of a write: of a commit its texts, of others the bodies of deliveries."""
    deliveries: Iterable[Delivery]
    if isinstance(write, Commit):
        size, deliveries = len(write.document or b""), write.deliveries
        if write.definition is not None:
            size += len(write.definition)
        if not deliveries:  # as with most
            return size
    elif isinstance(write, Settle):
        size, deliveries = 0, [one.delivery for one in write.settlements]
    else:
        return 0
    for delivery in deliveries:
        size += len(delivery.request.body or b"")
    return size
