"""Follows a table that processes share: what one of them writes, each knows within a second."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from scheduler_service.pacing.slices import rest_until_tick

LOOK_SECONDS = 0.4
"""So often the table is asked."""


class Follower(ABC):
    """Has what is in a table, and calls `look` again and again, in a task of its own.

    `mark` asks for what each change of the table changes. Between two looks it `rests` for about so many
    seconds. `on_trouble` is told why a look has failed, and with None that one has not; what was read last
    stays.
    """

    def __init__(
        self,
        *,
        mark: Callable[[], Awaitable[object]],
        on_trouble: Callable[[str | None], None],
        rest: Callable[[float], Awaitable[None]] = rest_until_tick,
    ) -> None:
        self._ask_mark, self._on_trouble, self._rest = mark, on_trouble, rest
        self._reading = asyncio.Lock()
        self._mark: object = None
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()

    @abstractmethod
    async def _read_table(self) -> object:
        """Has all that is in the table from now on; its mark of the moment at which it was read."""

    async def load(self) -> None:
        """Reads all of the table. Raises StoreUnavailable."""
        async with self._reading:
            self._mark = await self._read_table()

    async def look(self) -> None:
        """Reads what has changed. Raises StoreUnavailable."""
        if await self._ask_mark() != self._mark:
            await self.load()

    def start(self) -> None:
        """Begins to follow the table."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            self._looked.set()

    async def next_look(self) -> None:
        """Returns when a look that began after this call has ended, or failed; all who wait share one.

        Returns at once where none follows.
        """
        if self._task is not None:
            await self._looked.wait()

    async def _run(self) -> None:
        while True:
            await self._rest(LOOK_SECONDS)
            looked, self._looked = self._looked, asyncio.Event()
            try:
                await self.look()
                self._on_trouble(None)
            except Exception as error:  # noqa: BLE001 - nobody awaits this task: a defect would end it unseen
                self._on_trouble(str(error))
            finally:
                looked.set()
