"""Turns on much: few at a time, and decided beside the loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
from scheduler_service.hosts.room import Room

ROOM_BYTES = 16 << 20
ANY_BYTES = 1 << 20
"""So much a turn takes in any case, as its job's definition may be large."""


class LargeTurns:
    """What turns take that are `engine.effort.is_large`, from before their decision until they are durable.

    A turn has what it was asked for, what its job keeps, the state as it is written, and the requests and
    notifications that are made of it: some times as much as its job keeps afterwards. So the others wait in
    line, in the order of their asking, while those under way are about `ROOM_BYTES` large; a larger one is
    taken alone.
    """

    def __init__(self, *, core: Core, open_bytes: OpenBytes) -> None:
        self._core = core
        self._open_bytes = open_bytes
        self._room = Room(ROOM_BYTES)

    @asynccontextmanager
    async def enter(self, document: Document | None, event: Event) -> AsyncIterator[None]:
        """Within it the turn is taken; it waits for its place."""
        taken = await self._room.take(ANY_BYTES + weigh_open(document) + COUNTED_TIMES * _weigh_event(event))
        try:
            yield
        finally:
            self._room.give_back(taken)

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
