"""What a service needs to accept work, part by part: what is ready, what is missing, and since when."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from scheduler_service.domain.moments import rfc3339
from scheduler_service.ports.clock import Clock

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
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self.watch)

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
