"""Turns on much: few at a time, and decided beside the loop."""

from msgspec.structs import replace

from scheduler_service.domain.document import Document
from scheduler_service.domain.events import CallEnded, Event, PartEnded, Triggered
from scheduler_service.domain.moments import Now
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.decision import COUNTED_TIMES, Decision, Job
from scheduler_service.hosts.host_parts import Core
from scheduler_service.hosts.job_cache import CachedJob
from scheduler_service.hosts.large_work import work_apart
from scheduler_service.hosts.open_bytes import OpenBytes, weigh_open
from scheduler_service.pacing.room import Room
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreUnavailable

ROOM_BYTES = 10 << 20
ANY_BYTES = 1 << 20
"""So much a turn takes in any case, as its job's definition may be large."""
BUSY = "too many jobs with large states have turns at this moment; ask again in a moment"


class Place:
    """The place of one turn, to be left once or more."""

    def __init__(self, room: Room, taken: int) -> None:
        self._room = room
        self._taken = taken

    def leave(self) -> None:
        """The turn is durable, or waits for something else than its decision and the store."""
        taken, self._taken = self._taken, 0
        self._room.give_back(taken)


class LargeTurns:
    """What turns take that are `engine.effort.is_large`, from before their decision until they are durable.

    A turn has what it was asked for, what its job keeps, the state as it is written, and the requests and
    notifications that are made of it: some times as much as its job keeps afterwards. So the others wait in
    line, in the order of their asking, while those under way are about `ROOM_BYTES` large; a larger one is
    taken alone. `wait`: for so many ms (None: without an end).
    """

    def __init__(self, *, core: Core, open_bytes: OpenBytes, clock: Timekeeper, wait: int | None) -> None:
        self._core = core
        self._open_bytes = open_bytes
        self._room = Room(
            ROOM_BYTES, later=None if wait is None else lambda give_up: clock.call_after(wait, give_up)
        )

    @property
    def is_crowded(self) -> bool:
        """Whether turns wait in line."""
        return self._room.is_crowded

    async def enter(self, document: Document | None, event: Event) -> Place:
        """A place for the turn. Raises StoreUnavailable, for it to be asked for again: it was in line for
        too long.
        """
        size = ANY_BYTES + weigh_open(document) + COUNTED_TIMES * _weigh_event(event)
        try:
            return Place(self._room, await self._room.take(size))
        except TimeoutError:
            raise StoreUnavailable(BUSY, is_public=True) from None

    async def decide(self, cached: CachedJob, job: Job, event: Event, now: Now) -> Decision:
        """A decision beside the loop; what its job keeps then counts before the next one is made."""
        counted = self._open_bytes
        deciding = counted.begin(cached)

        def decide() -> Decision:
            decision = self._core.decide(replace(job, room=counted.room_now()), event, now)
            deciding.more = weigh_open(decision.document) - deciding.before
            return decision

        try:
            decision = await work_apart(decide)
        finally:
            counted.end(deciding)
        counted.note(cached, deciding.before + deciding.more)
        return decision


def _weigh_event(event: Event) -> int:
    """The bytes that an event brings."""
    match event:
        case CallEnded(outcome=Answer(body=body)):
            return len(body)
        case PartEnded(end=end):
            return len(end.body or b"")
        case Triggered(params=params, replay=replay):
            return len(params) + sum(map(len, () if replay is None else replay.responses))
        case _:
            return 0
