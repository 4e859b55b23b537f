"""One operation under way: its pieces, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from scheduler_service.hosts.operations.operation import Operation, Outcome

MOST_FAULTS = 20
"""After so many pieces in a row that the store failed, the operation is interrupted."""

Work = Callable[[str], Awaitable[Outcome]]
"""Does one piece, named by its id; what it raises is a fault of this service."""


class Run:
    """The pieces of `operation` that are not done yet, which are done `at_once` at a time."""

    def __init__(self, *, operation: Operation, ids: Sequence[str], work: Work, at_once: int) -> None:
        self.operation = operation
        self._ids: Iterator[str] = iter(ids)
        self._work = work
        self._at_once = at_once
        self._faults = 0
        self._is_leaving = False

    def leave(self) -> None:
        """Nothing more begins: the process ends."""
        self._is_leaving = True

    async def work_off(self) -> None:
        """Does them all, until the operation is stopped, the store is away, or the process ends."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._at_once):
                group.create_task(self._take())

    async def _take(self) -> None:
        for piece in self._ids:
            await asyncio.sleep(0)
            outcome = await self._work(piece)
            self._faults = self._faults + 1 if outcome.is_store_fault else 0
            self.operation.take(piece, outcome)
            if self._is_leaving or self.operation.is_stopped or self._faults >= MOST_FAULTS:
                return
