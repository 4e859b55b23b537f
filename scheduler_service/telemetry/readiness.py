"""What a service needs to accept work, part by part, and the trouble of its processes."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.pacing.slices import until_tick
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.log import Log

LOOK_SECONDS = 1.0

READY, MISSING, TROUBLED = "ready", "missing", "troubled"
BEARABLE = ("history",)
"""Parts whose trouble does not keep the service from its work: their state is then `troubled`."""

FindMissing = Callable[[], Sequence[str]]
"""The names of what a part lacks; none: it is ready."""


class PartSeen(msgspec.Struct, frozen=True):
    """What a part lacked when it was looked at, and since when it lacks something or nothing (wall ms)."""

    lacks: tuple[str, ...]
    since: int


class Readiness:
    """Looks at `parts` each second, and when it is asked."""

    def __init__(self, *, parts: Mapping[str, FindMissing], clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._seen: dict[str, PartSeen] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Looks each second from now on, until `stop`."""
        self.look()
        left = until_tick(LOOK_SECONDS, time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(left, self.watch)

    def stop(self) -> None:
        """Ends that."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Notes what has changed."""
        now = self._clock.now().wall
        for name, find in self._parts.items():
            lacks, known = tuple(find()), self._seen.get(name)
            is_same = known is not None and bool(known.lacks) == bool(lacks)
            self._seen[name] = PartSeen(lacks, known.since if known is not None and is_same else now)

    async def list_missing(self) -> Sequence[str]:
        """What keeps the service from its work."""
        self.look()
        return [lack for name, seen in self._seen.items() if name not in BEARABLE for lack in seen.lacks]

    def describe(self) -> Sequence[Mapping[str, object]]:
        """The parts, as the API shows them."""
        self.look()
        return [_wire(name, seen) for name, seen in self._seen.items()]


def _wire(name: str, seen: PartSeen) -> Mapping[str, object]:
    bad = TROUBLED if name in BEARABLE else MISSING
    return {
        "name": name,
        "state": bad if seen.lacks else READY,
        "since": rfc3339(seen.since),
        "missing": [lack for lack in seen.lacks if lack != name],
    }


LATELY = 60.0
"""Seconds for which a hold is remembered."""

STOOD = 10.0
"""Seconds. A loop that is held for so long stands still: other nodes count its process as offline by then."""
STORE, HISTORY = "store", "history"
LOST, BACK = OccurrenceKind.STORE_LOST, OccurrenceKind.STORE_BACK
_OF_PROCESS = frozenset({OccurrenceKind.WORKER_LOST, OccurrenceKind.WORKER_BACK})


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


class HistoryWatch:
    """Remembers and logs whether the history can be written."""

    is_troubled = False

    def __init__(self, log: Log) -> None:
        self._log = log

    def note(self, trouble: str | None) -> None:
        """A try to write failed; None: it succeeded again."""
        self.is_troubled = trouble is not None
        if trouble is None:
            self._log("history_written_again")
        else:
            self._log("history_not_written", error=trouble)

    def lacks(self) -> Sequence[str]:
        """`history`, while it cannot be written."""
        return ["history"] if self.is_troubled else []


class WorkerStores:
    """Knows it from what they tell (`hosts.processes.parent`), which is always brought here.

    One that is started again begins with its files at hand.
    """

    def __init__(self) -> None:
        self._lost: set[tuple[str, str]] = set()

    def take(self, occurrence: Occurrence) -> None:
        """Takes what happens to the service (`telemetry.event_source.Take`)."""
        whose, _, part = (occurrence.subject or "").partition("/")
        if occurrence.kind is LOST:
            self._lost.add((whose, part or STORE))
        elif occurrence.kind is BACK:
            self._lost.discard((whose, part or STORE))
        elif occurrence.kind in _OF_PROCESS:
            self._lost = {one for one in self._lost if one[0] != _subject(whose)}

    def lacks(self, worker: int) -> Sequence[str]:
        """What of `store` and `history` this process cannot write."""
        return [part for part in (STORE, HISTORY) if (_subject(worker), part) in self._lost]

    def name(self, part: str, workers: int) -> Sequence[str]:
        """The processes that cannot write this part, of so many, as readiness names them."""
        numbers = range(1, workers + 1)
        return [f"{part} of worker process {number}" for number in numbers if part in self.lacks(number)]


def _subject(worker: int | str) -> str:
    return f"worker {worker}"
