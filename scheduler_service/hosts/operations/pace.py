"""When the pieces of operations begin: with rests between them, in which firings have the machine."""

import asyncio
import time
from collections.abc import Awaitable, Callable

WORK_SECONDS = 0.010
REST_SECONDS = 0.015
"""So long pieces begin, then so long none: an operation takes two and a half times as long as it could, and
the loop, the writer of the state and the disk are free for more than half of the time."""


class Pace:
    """The rests of all operations of a process together. `timer` counts seconds, `sleep` waits for them."""

    def __init__(
        self,
        *,
        timer: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._timer = timer
        self._sleep = sleep
        self._rested_at = timer()
        self._rest: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """An operation begins: its first pieces need no rest before them."""
        self._rested_at = self._timer()

    def now(self) -> float:
        """The seconds of its timer."""
        return self._timer()

    async def pause(self, seconds: float) -> None:
        """Waits before something is asked again."""
        await self._sleep(seconds)

    async def wait(self) -> None:
        """Returns when a piece may begin, in the order of the calls; the loop does other things before."""
        await asyncio.sleep(0)
        if self._rest is None and self._timer() >= self._rested_at + WORK_SECONDS:
            self._rest = asyncio.ensure_future(self._take_rest())
        if self._rest is not None:
            # Whoever gives up waiting does not end the rest of the others.
            await asyncio.shield(self._rest)

    async def _take_rest(self) -> None:
        try:
            await self._sleep(REST_SECONDS)
        finally:
            self._rested_at = self._timer()
            self._rest = None
