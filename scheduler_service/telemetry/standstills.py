"""Remembers for how long a loop was held lately: what `/health/live` and `/nodes` say of it."""

import time
from collections import deque
from collections.abc import Callable

LATELY = 60.0
"""Seconds for which a hold is remembered."""

STOOD = 10.0
"""Seconds. A loop that is held for so long stands still: other nodes count its process as offline by then."""


class Standstills:
    """The holds of one loop; `clock` counts in seconds, also while the loop stands."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._holds: deque[tuple[float, float]] = deque()

    def note(self, seconds: float) -> None:
        """The loop is free again, after it was held for so long."""
        self._forget()
        self._holds.append((self._clock(), seconds))

    @property
    def longest(self) -> float:
        """The longest hold that ended in the last minute, in seconds."""
        self._forget()
        return max((held for _, held in self._holds), default=0.0)

    @property
    def lasting(self) -> float | None:
        """The longest standstill that is still told, in seconds; None: there is none.

        Each is told for as long as the loop stood, a minute at most: a probe that asks every few seconds sees
        a process that mostly stands as one that is dead, and one that stood once as one that lives again.
        """
        self._forget()
        now = self._clock()
        told = [held for ended, held in self._holds if held >= STOOD and now - ended < held]
        return max(told, default=None)

    def _forget(self) -> None:
        before = self._clock() - LATELY
        while self._holds and self._holds[0][0] < before:
            self._holds.popleft()
