"""Keeps a flood of one kind of lines from filling the log: the first are written, the others counted."""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from scheduler_service.ports.log import Log
from scheduler_service.telemetry.tally import LINE_SECONDS, Window

FULL = 10
"""Lines of one kind that are written in a window, where its word names no other number."""

MOST_KINDS = 100
"""Kinds that are told apart at the same time; lines of further ones count together, by their word."""

LONGEST_NAME = 64


class Kind(NamedTuple):
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
        self._windows: dict[Kind, Window] = {}
        self._due = float("inf")
        self._lock = threading.Lock()

    def admits(self, kind: Kind, lines: int = FULL) -> bool:
        """Whether a line of this kind, of which `lines` are written in a window, is; else it is counted."""
        now = self._clock()
        with self._lock:
            window = self._windows.get(kind)
            if window is None:
                kind = kind if len(self._windows) < MOST_KINDS else Kind(kind.word)
                window = self._windows.setdefault(kind, Window(full=lines, seconds=self._seconds))
                self._due = min(self._due, now + self._seconds)
            return window.admits(now)

    def omits(self, kind: Kind) -> bool:
        """Whether a line of this kind is not written now; then it is counted. Otherwise ask `admits`."""
        now = self._clock()
        with self._lock:
            window = self._windows.get(kind)
            return window is not None and window.omits(now)

    @property
    def has_untold(self) -> bool:
        """Whether lines were counted that no sum has yet."""
        with self._lock:
            return any(one.untold for one in self._windows.values())

    def left(self) -> float:
        """Seconds until the first window ends."""
        return max(self._due - self._clock(), 0)

    def take_ended(self, *, all_of_them: bool = False) -> Sequence[tuple[Kind, int]]:
        """The kinds whose windows have ended, or all, with how many lines were not written."""
        now = self._clock()
        if now < self._due and not all_of_them:
            return ()
        with self._lock:
            ended = [kind for kind, one in self._windows.items() if all_of_them or not one.left(now)]
            counted = [(kind, self._windows.pop(kind).untold) for kind in ended]
            self._due = min((now + one.left(now) for one in self._windows.values()), default=float("inf"))
        return [(kind, untold) for kind, untold in counted if untold]


def kind_of(word: str, told_apart_by: tuple[str, ...], keys: dict[str, object]) -> Kind:
    """The kind of a line."""
    if not told_apart_by:
        return Kind(word)
    return Kind(word, tuple([(name, str(keys.get(name))[:LONGEST_NAME]) for name in told_apart_by]))


@runtime_checkable
class CountingLog(Log, Protocol):
    """A log that counts lines beyond the first of a kind (`flood`)."""

    def omits(self, event: str, /, **kind: object) -> bool:
        """Whether a line of this kind would not be written now: then it is dealt with, and need not be made.

        `kind`: the keys that tell lines of this event apart (`vocabulary`). A line of a flood is counted by
        this call, one below the level of the log is not. Never raises.
        """


def omits_of(log: Log) -> Callable[..., bool]:
    """`omits` of `log`; of a log without it a function that is False for every line."""
    return log.omits if isinstance(log, CountingLog) else _write_all


def _write_all(event: str, /, **kind: object) -> bool:
    return False
