"""Finds what reminders and nodes left lying: overdue jobs, those of dead nodes, deliveries, their records.

One node at a time sweeps, by a lease in SQL: unlike an actor of its own, it goes on while no reminder rings.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from scheduler_service.domain.moments import HOUR, MINUTE, SECOND, Now
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.dapr.actor_store import Found
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.ports.cluster import ClusterNodes, ClusterStore
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log

PERIOD = SECOND
OVERDUE = 2 * SECOND
LEASE = 5 * SECOND
RATE = 200
AT_ONCE = 32
RECENT = 70 * SECOND
DELIVERIES = 500
LEASE_NAME = "sweep"

Ring = Callable[[str], Awaitable[None]]


class Sweep:
    """`ring` takes a turn on a job wherever it lives, and never raises; at most 200 rings a second.

    `found` gets the records and deliveries that dead nodes left.
    """

    def __init__(
        self,
        *,
        shared: ClusterStore,
        nodes: ClusterNodes,
        presence: NodeHeartbeat,
        clock: Timekeeper,
        ring: Ring,
        found: Found,
        log: Log,
    ) -> None:
        self._shared = shared
        self._nodes = nodes
        self._presence = presence
        self._clock = clock
        self._ring = ring
        self._found = found
        self._log = log
        self._woken: dict[str, int] = {}
        self._tidy_at = 0
        self._task: asyncio.Task[None] | None = None
        self.rung = 0

    def start(self) -> None:
        """Begins to sweep, once a second, while this node has the lease."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends; another node takes the lease when it has run out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                if await self._has_lease():
                    await self.sweep()
            except StoreError as error:
                self._log("sweep_failed", error=str(error))
            await self._clock.sleep(PERIOD)

    async def sweep(self) -> None:
        """One round. Raises StoreError."""
        now = self._clock.now()
        late = Now(now.wall - OVERDUE, now.steady - OVERDUE)
        found = dict.fromkeys(await self._shared.overdue(late, RATE))
        alive = (self._presence.holder, *self._presence.others)
        found |= dict.fromkeys(await self._abandoned(alive, now))
        await self._ring_all(list(found))
        batches = await self._shared.pending_history.adopt(alive, self._presence.holder, DELIVERIES)
        deliveries = await self._shared.adopt(alive, self._presence.holder, DELIVERIES)
        self._found(batches, deliveries)
        if now.steady >= self._tidy_at:
            self._tidy_at = now.steady + HOUR
            await self._shared.prune(now)
            await self._presence.forget_old()

    async def _has_lease(self) -> bool:
        """One that is not heard of, or is without its sidecar, leaves the lease to another node."""
        if not self._presence.tenure.is_current:
            return False
        now = self._clock.now().steady
        return await self._nodes.lease(LEASE_NAME, self._presence.holder, now, now + LEASE)

    async def _abandoned(self, alive: Iterable[Holder], now: Now) -> list[str]:
        """Each job of a dead node once a minute: a ring that changes nothing leaves it in its list."""
        self._woken = {job: at for job, at in self._woken.items() if now.steady - at < MINUTE}
        found: list[str] = []
        after = ""
        while len(found) < RATE:
            page = await self._shared.abandoned(alive, now.steady - RECENT, RATE, after)
            found.extend(job for job in page if job not in self._woken)
            if len(page) < RATE:
                break
            after = page[-1]
        self._woken |= dict.fromkeys(found, now.steady)
        return found

    async def _ring_all(self, job_ids: list[str]) -> None:
        for start in range(0, len(job_ids), AT_ONCE):
            some = job_ids[start : start + AT_ONCE]
            self.rung += len(some)
            await asyncio.gather(*map(self._ring, some))
