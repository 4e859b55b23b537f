"""Drains the instance on signals that end the process, before their other handlers run."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from types import FrameType
from typing import Any

Stop = Callable[[], Awaitable[None]]


class SignalDrain:
    """Runs `stop` before the existing handlers of the signals `numbers`.

    A server closes its socket on the signal, so the scheduler must learn of the draining before. A second
    signal is passed on at once. Does nothing outside the main thread, where Python handles no signals.
    """

    def __init__(self, *, numbers: Sequence[signal.Signals], stop: Stop) -> None:
        self._numbers = numbers
        self._stop = stop
        self._before: dict[int, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_passed_on = False

    def install(self) -> None:
        """Installs the handlers, for the running event loop."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._loop = asyncio.get_running_loop()
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._take)

    def remove(self) -> None:
        """Restores the earlier handlers, unless others were installed meanwhile."""
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
        except asyncio.CancelledError:
            self._is_passed_on = True  # the loop ends already; raised now, the signal could kill the process
            raise
        finally:
            if not self._is_passed_on:
                self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        self._is_passed_on = True
        self.remove()
        signal.raise_signal(number)
