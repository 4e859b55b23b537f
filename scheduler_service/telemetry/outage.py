"""Trouble that lasts: one line of the log when it begins, one when it ends, however often it is met."""

import time
from collections.abc import Callable

from scheduler_service.ports.log import Log


class Outage:
    """One kind of trouble; `begins` and `ends` are its event words. It belongs to one thread.

    The first failure is the line `begins` with its `error`; the next success is `ends`, with the number of
    `failures` and the `seconds` from the first one on.
    """

    def __init__(
        self, begins: str, ends: str, *, log: Log, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._begins = begins
        self._ends = ends
        self._log = log
        self._clock = clock
        self._since: float | None = None
        self._failures = 0

    def fail(self, error: str) -> None:
        """It was met."""
        self._failures += 1
        if self._since is None:
            self._since = self._clock()
            self._log(self._begins, error=error)

    def succeed(self) -> None:
        """What failed has worked."""
        if self._since is None:
            return
        seconds = round(self._clock() - self._since, 1)
        self._log(self._ends, failures=self._failures, seconds=seconds)
        self._since, self._failures = None, 0
