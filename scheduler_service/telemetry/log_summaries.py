"""Sums in the log: repeated events as one summary line, lasting trouble as its begin and its end."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scheduler_service.ports.log import Log

LINE_SECONDS = 10.0


class LineWindow:
    """Of one kind the first `full` in `seconds` are told; what comes after them is `untold`.

    Moments are seconds of any clock that does not go back.
    """

    __slots__ = ("_ends", "_full", "_seconds", "_told", "untold")

    def __init__(self, *, full: int = 1, seconds: float = LINE_SECONDS) -> None:
        self.untold = 0
        self._full = full
        self._seconds = seconds
        self._told = 0
        self._ends = float("-inf")

    def admits(self, now: float) -> bool:
        """Whether one that happens `now` is told; else it is counted."""
        if now >= self._ends:
            self.begin(now)
        if self._told < self._full:
            self._told += 1
            return True
        self.untold += 1
        return False

    def begin(self, now: float) -> None:
        """A new window begins."""
        self._ends, self._told = now + self._seconds, 0

    def left(self, now: float) -> float:
        """Seconds to its end; 0: it has ended."""
        return max(self._ends - now, 0)

    def take_untold(self) -> int:
        """How many were not told since this was last asked."""
        untold, self.untold = self.untold, 0
        return untold


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
        self._window = LineWindow(seconds=line_seconds)
        self._fresh: Counter[str] = Counter()
        self._keys: dict[str, object] = {}
        self._timer: asyncio.TimerHandle | None = None

    def count(self, name: str, more: int = 1, /, **keys: object) -> None:
        """So many more of `name`."""
        self.counts[name] += more
        self._fresh[name] += more
        self._keys = keys
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        now = self._now(loop)
        if self._window.admits(now):
            self._write()
        else:
            self._timer = loop.call_later(self._window.left(now), self._write_late)

    def flush(self) -> None:
        """Writes what is not written yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._write_late()

    def _write_late(self) -> None:
        self._timer = None
        self._window.begin(self._now(asyncio.get_running_loop()))
        self._window.admits(self._now(asyncio.get_running_loop()))
        self._write()

    def _write(self) -> None:
        self._log(self._event, **{**self._keys, **self._fresh})
        self._fresh.clear()

    def _now(self, loop: asyncio.AbstractEventLoop) -> float:
        return (self._clock or loop.time)()


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

    def note(self, error: str | None) -> None:
        """It was met, or what failed has worked (None)."""
        if error is None:
            self.succeed()
        else:
            self.fail(error)

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


FULL = 10
"""Lines of one kind that are written in a window, where its word names no other number."""

MOST_KINDS = 100
"""Kinds that are told apart at the same time; lines of further ones count together, by their word."""

LONGEST_NAME = 64


class LineKind(NamedTuple):
    """What is counted together: lines of one word, with equal values of the keys that tell it apart."""

    word: str
    names: tuple[tuple[str, str], ...] = ()


class Flood:
    """Counts lines by kind, in windows of 10 s from the first line of a kind. Any thread may call it.

    What it holds is bounded by the kinds and the length of their names, however many lines come.
    """

    def __init__(self, *, clock: Callable[[], float], seconds: float = LINE_SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._windows: dict[LineKind, LineWindow] = {}
        self._due = float("inf")
        self._lock = threading.Lock()

    def admits(self, kind: LineKind, lines: int = FULL) -> bool:
        """Whether a line of this kind, of which `lines` are written in a window, is; else it is counted."""
        now = self._clock()
        with self._lock:
            window = self._windows.get(kind)
            if window is None:
                kind = kind if len(self._windows) < MOST_KINDS else LineKind(kind.word)
                window = self._windows.setdefault(kind, LineWindow(full=lines, seconds=self._seconds))
                self._due = min(self._due, now + self._seconds)
            return window.admits(now)

    @property
    def has_untold(self) -> bool:
        """Whether lines were counted that no sum has yet."""
        with self._lock:
            return any(one.untold for one in self._windows.values())

    def left(self) -> float:
        """Seconds until the first window ends."""
        return max(self._due - self._clock(), 0)

    def take_untold(self) -> Sequence[tuple[LineKind, int]]:
        """How many lines of each kind were not written so far; the windows go on."""
        with self._lock:
            counted = [(kind, one.take_untold()) for kind, one in self._windows.items()]
        return [(kind, untold) for kind, untold in counted if untold]

    def take_ended(self, *, all_of_them: bool = False) -> Sequence[tuple[LineKind, int]]:
        """The kinds whose windows have ended, or all, with how many lines were not written."""
        now = self._clock()
        if now < self._due and not all_of_them:
            return ()
        with self._lock:
            ended = [kind for kind, one in self._windows.items() if all_of_them or not one.left(now)]
            counted = [(kind, self._windows.pop(kind).untold) for kind in ended]
            self._due = min((now + one.left(now) for one in self._windows.values()), default=float("inf"))
        return [(kind, untold) for kind, untold in counted if untold]


def kind_of(word: str, told_apart_by: tuple[str, ...], keys: dict[str, object]) -> LineKind:
    """The kind of a line; it has no name for a key that the line has not, or that is None."""
    if not told_apart_by:
        return LineKind(word)
    given = [(name, keys.get(name)) for name in told_apart_by]
    return LineKind(word, tuple([(name, str(one)[:LONGEST_NAME]) for name, one in given if one is not None]))
