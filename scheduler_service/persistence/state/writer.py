"""The one writer: whatever waits goes to disk as one group, one transaction, one answer to the event loop."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from scheduler_service.persistence.state.group import Group, Write
from scheduler_service.persistence.state.lane import Lane, Verdict
from scheduler_service.persistence.state.tap import Point, Tap
from scheduler_service.ports import StoreUnavailable, StoreUncertain

# What SQLite says when the fault lies in one write's values and not in the file: the others may go on.
_ONE_WRITES_FAULT = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)


class Writer:
    """Writes in the order of `put`, in groups of at most `size`, as fast as the disk ends the last group.

    A write that conflicts fails alone. A write that cannot be stored fails alone. When the group cannot be
    written, each of its writes raises StoreUnavailable and nothing was written; where the end of the
    transaction is unknown, each raises StoreUncertain. The next group is tried afresh.
    """

    def __init__(
        self,
        *,
        connection: sqlite3.Connection,
        place: str,
        guard: AbstractContextManager[Any],
        size: int,
        tap: Tap | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._place = place
        self._guard = guard
        self._tap = tap
        self._lane: Lane[Write] = Lane(name="state-writer", serve=self._serve, size=size, loop=loop)

    def put(self, write: Write) -> asyncio.Future[Any]:
        """Hands `write` in and returns at once; the future ends when it is durable, or raises StoreError."""
        return self._lane.put(write)

    def put_all(self, writes: Sequence[Write]) -> asyncio.Future[list[Verdict]]:
        """Hands in writes of one group; the future has for each its result or its StoreError."""
        return self._lane.put_all(writes)

    async def close(self) -> None:
        """Returns when all that was handed in is answered."""
        await self._lane.close()

    def _serve(self, writes: list[Write]) -> list[Verdict]:
        with self._guard:
            return self._write(writes)

    def _write(self, writes: list[Write]) -> list[Verdict]:
        try:
            verdicts = self._put_rows(writes)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must be told
            self._roll_back()
            return self._refuse(writes, error)
        return self._make_durable(verdicts)

    def _put_rows(self, writes: list[Write]) -> list[Verdict]:
        self._before(Point.BEGIN)
        self._connection.execute("BEGIN IMMEDIATE")
        self._after(Point.BEGIN)
        self._before(Point.WRITE)
        group = Group(connection=self._connection, writes=writes)
        verdicts = [group.take(write) for write in writes]
        group.flush()
        self._after(Point.WRITE)
        return verdicts

    def _refuse(self, writes: list[Write], error: Exception) -> list[Verdict]:
        ours = isinstance(error, sqlite3.Error) and not isinstance(error, _ONE_WRITES_FAULT)
        if ours or len(writes) == 1:
            return [self._unavailable(error) for _ in writes]
        # One of them cannot be stored; halving finds it while the others get through.
        half = len(writes) // 2
        return self._write(writes[:half]) + self._write(writes[half:])

    def _make_durable(self, verdicts: list[Verdict]) -> list[Verdict]:
        try:
            self._before(Point.COMMIT)
            self._connection.execute("COMMIT")
            self._after(Point.COMMIT)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must be told
            # A full disk cannot have taken the last page, which alone makes the group count; and a
            # transaction that is still open did not end. Anything else may come back after a crash.
            known = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            known = known or self._connection.in_transaction
            self._roll_back()
            fail = self._unavailable if known else self._uncertain
            return [verdict if isinstance(verdict, Exception) else fail(error) for verdict in verdicts]
        return verdicts

    def _roll_back(self) -> None:
        # SQLite may have done it by itself, as it does after a full disk.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"Nothing was written to {self._place}: {error}.")

    def _uncertain(self, error: Exception) -> StoreUncertain:
        return StoreUncertain(
            f"Whether {self._place} holds the write is unknown: {error}. Load before you write."
        )

    def _before(self, point: Point) -> None:
        if self._tap is not None:
            self._tap.before(point)

    def _after(self, point: Point) -> None:
        if self._tap is not None:
            self._tap.after(point)
