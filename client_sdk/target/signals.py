"""Signals that end the process: first the work is brought to its end, then the signal does what it does."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from types import FrameType
from typing import Any

Stop = Callable[[], Awaitable[None]]


class SignalDrain:
    """Puts `stop` before the handlers of `numbers`, which come to their turn when it is done.

    A server closes its socket as soon as it is told to end, so that whoever still calls finds nobody; the
    scheduler has to know before. A second signal is passed on at once. Outside the main thread, where Python
    takes no signals, this does nothing.
    """

    def __init__(self, *, numbers: Sequence[signal.Signals], stop: Stop) -> None:
        self._numbers = numbers
        self._stop = stop
        self._before: dict[int, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def install(self) -> None:
        """From now on. Belongs to the running event loop."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._loop = asyncio.get_running_loop()
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._take)

    def remove(self) -> None:
        """The handlers are what they were, unless somebody else has put theirs meanwhile."""
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._take and handler is not None:
                signal.signal(number, handler)
        self._before.clear()

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._task is not None or self._loop is None or self._loop.is_closed():
            self._pass_on(number)
            return
        self._loop.call_soon_threadsafe(self._begin, number)

    def _begin(self, number: int) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._end(number))

    async def _end(self, number: int) -> None:
        try:
            await self._stop()
        finally:
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        self.remove()
        signal.raise_signal(number)
