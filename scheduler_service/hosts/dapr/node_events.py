"""The events of a cluster at one node: written while any node wants them, read while this one does."""

import asyncio
from collections.abc import Awaitable

import msgspec

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.persistence.cluster.nodes import SharedEvents
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.cluster import EventGroup
from scheduler_service.ports.errors import explain
from scheduler_service.telemetry.event_feed import EventFeed, PositionSeal
from scheduler_service.telemetry.event_source import Leave, Occurrences
from scheduler_service.telemetry.log_summaries import Tally

LOOK_MS = 2 * SECOND
"""So often a node asks whether any node wants events."""
WANTED_MS = MINUTE
"""So long events stay wanted after a node has said so; it says so three times as often."""
GROUP_MS = 200
READ_MS = SECOND // 2
KEPT_MS = 5 * MINUTE
MOST_IN_GROUP = 500
MOST_WAITING = 5_000
GROUPS_READ = 100
STEP = 1_000
"""Positions per group: an event's position is that of its group and its place in it."""


class NodeEvents:
    """`telemetry.event_source.EventSource` over the shared database; each event of this node names `node`."""

    line = "0"
    ahead = 100 * STEP

    def __init__(
        self,
        *,
        shared: SharedEvents,
        occurrences: Occurrences,
        clock: Timekeeper,
        node: str,
        failed: Tally,
    ) -> None:
        self._shared = shared
        self._occurrences = occurrences
        self._clock = clock
        self._node = node
        self._failed = failed
        self._waiting: list[Occurrence] = []
        self._lost = 0
        self._is_read = False
        self._leave: Leave | None = None
        self._writing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look whether events are wanted."""
        self._writing = asyncio.create_task(self._write())

    async def stop(self) -> None:
        """Writes what has happened so far; nothing later."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self._put()
        self._stop_taking()

    def listen(self, sink: EventFeed) -> Leave:
        """Reads the groups of all nodes from now on, and says to all that they are wanted."""
        task = asyncio.create_task(self._read(sink))
        self._is_read = True
        self._start_taking()  # its own ones are wanted at once

        def leave() -> None:
            self._is_read = False
            task.cancel()

        return leave

    async def _write(self) -> None:
        while True:
            await self._try(self._look())
            for _ in range(LOOK_MS // GROUP_MS):
                await self._clock.sleep(GROUP_MS)
                await self._put()

    async def _look(self) -> None:
        if await self._shared.are_wanted(self._clock.now().steady):
            self._start_taking()
        elif not self._is_read:
            self._stop_taking()

    def _start_taking(self) -> None:
        if self._leave is None:
            self._leave = self._occurrences.subscribe(self._take)

    def _stop_taking(self) -> None:
        if self._leave is not None:
            self._leave()
            self._leave = None

    def _take(self, occurrence: Occurrence) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._lost += 1
        else:
            self._waiting.append(msgspec.structs.replace(occurrence, node=self._node))

    async def _put(self) -> None:
        """Writes what waits; what the database does not take is lost, and told as a gap."""
        while self._waiting:
            group, self._waiting = self._waiting[:MOST_IN_GROUP], self._waiting[MOST_IN_GROUP:]
            if self._lost and not self._waiting:
                group.append(
                    Occurrence(kind=OccurrenceKind.GAP, at=group[-1].at, count=self._lost, node=self._node)
                )
                self._lost = 0
            if not await self._try(self._shared.put(group, self._clock.now().steady)):
                self._lost += len(group)
                return

    async def _read(self, sink: EventFeed) -> None:
        number: int | None = None
        wanted_at = 0
        while True:
            now = self._clock.now().steady
            try:
                if number is None or now - wanted_at >= WANTED_MS // 3:
                    latest = await self._shared.want(now, now + WANTED_MS)
                    await self._shared.forget(now - KEPT_MS)
                    wanted_at = now
                    if number is None:
                        number = await self._begin(sink, latest)
                number = await self._go_on(sink, number)
            except Exception as error:  # noqa: BLE001 - nobody awaits this task: a defect would end it unseen
                self._failed.count("times", error=explain(error))
            await self._clock.sleep(READ_MS)

    async def _begin(self, sink: EventFeed, latest: int) -> int:
        """Begins with the oldest group that is kept: who comes back from another node finds its place."""
        groups = await self._shared.after(0, 1)
        number = groups[0].number - 1 if groups else latest
        found = await self._collect(number)
        sink.begin((number + 1) * STEP - 1, PositionSeal(await self._shared.seal_key()))
        return _hand_over(sink, found, number)

    async def _go_on(self, sink: EventFeed, number: int) -> int:
        return _hand_over(sink, await self._collect(number), number)

    async def _collect(self, number: int) -> list[EventGroup]:
        found: list[EventGroup] = []
        while True:
            more = await self._shared.after(found[-1].number if found else number, GROUPS_READ)
            found += more
            if len(more) < GROUPS_READ:
                return found

    async def _try(self, work: Awaitable[object]) -> bool:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: a defect would end it unseen
            self._failed.count("times", error=explain(error))
            return False
        return True


def _hand_over(sink: EventFeed, groups: list[EventGroup], number: int) -> int:
    """The number of the last group."""
    for group in groups:
        for index, occurrence in enumerate(group.occurrences):
            sink.add(group.number * STEP + index, occurrence)
        number = group.number
    return number
