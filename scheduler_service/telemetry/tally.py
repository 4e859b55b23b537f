"""Counts what may happen thousands of times a second, and writes a line of the log now and then."""

import asyncio
from collections import Counter
from collections.abc import Callable

from scheduler_service.ports.log import Log

LINE_SECONDS = 10.0


class Tally:
    """One event of the log, at most every `line_seconds`: the first at once, then with what came meanwhile.

    A line has, by name, how many there were since the line before it, beside the keys of the last one.
    `counts` are those since the start. It belongs to the running event loop.
    """

    def __init__(
        self,
        event: str,
        *,
        log: Log,
        clock: Callable[[], float] | None = None,
        line_seconds: float = LINE_SECONDS,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._event = event
        self._log = log
        self._clock = clock
        self._line_seconds = line_seconds
        self._fresh: Counter[str] = Counter()
        self._keys: dict[str, object] = {}
        self._next = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def count(self, name: str, more: int = 1, /, **keys: object) -> None:
        """So many more of `name`."""
        self.counts[name] += more
        self._fresh[name] += more
        self._keys = keys
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        pause = self._next - self._now(loop)
        if pause <= 0:
            self._write()
        else:
            self._timer = loop.call_later(pause, self._write)

    def flush(self) -> None:
        """Writes what is not written yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()

    def _write(self) -> None:
        self._timer = None
        self._next = self._now(asyncio.get_running_loop()) + self._line_seconds
        self._log(self._event, **{**self._keys, **self._fresh})
        self._fresh.clear()

    def _now(self, loop: asyncio.AbstractEventLoop) -> float:
        return (self._clock or loop.time)()
