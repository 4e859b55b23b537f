"""Finds what reminders and dead nodes left: overdue jobs, jobs and deliveries of dead nodes, their records.

The jobs of a node that stops are rung as those of a dead one: it gives them away, and tells nobody.

One node at a time sweeps, by a lease in SQL: unlike a system actor, it needs no reminder to go on.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from scheduler_service.domain.moments import HOUR, MINUTE, SECOND, Now
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.background_tasks import keep_at
from scheduler_service.hosts.dapr.cluster_jobs import TakeOver
from scheduler_service.hosts.dapr.first_turns import FirstRings
from scheduler_service.hosts.dapr.node import DaprParts
from scheduler_service.hosts.pending_notifications import damage_logger
from scheduler_service.ports.errors import StoreError
from scheduler_service.telemetry.log_summaries import Outage

PERIOD_MS = SECOND
OVERDUE_AFTER_MS = 2 * SECOND
MOST_LAG_MS = 30 * SECOND
LEASE_MS = 5 * SECOND
RINGS_PER_SECOND = 200
RINGS_AT_ONCE = 32
RECENT_MS = 70 * SECOND
BATCH_SIZE = 500
LEASE_NAME = "sweep"
Ring = Callable[[str], Awaitable[None]]
Lag = Callable[[], int]
"""By how much (ms) rings come late at the moment (`ReminderAlarms.lag`)."""


class Rung(NamedTuple):
    """A ring for the claim of `claimed_at`; both moments are steady."""

    claimed_at: int
    at: int


class Sweep:
    """`ring` takes a turn on a job wherever it lives, and never raises; at most 200 rings a second.

    While rings come late (`lag`), what is later than they are by 2 s is overdue.

    `first_rings` looks for jobs that no reminder guards yet. `take_over` gets the records and deliveries that
    dead nodes left. `rung` counts the rings.
    """

    def __init__(
        self,
        *,
        node: DaprParts,
        ring: Ring,
        lag: Lag,
        first_rings: FirstRings,
        take_over: TakeOver,
    ) -> None:
        self._store = node.cluster.store
        self._nodes = node.cluster.nodes
        self._heartbeat = node.cluster.heartbeat
        self._holder = node.holder
        self._clock = node.clock
        self._log = node.log
        self._note_damaged = damage_logger(node.log)
        self._outage = Outage("sweep_failed", "sweep_repeated", log=node.log)
        self._ring = ring
        self._lag = lag
        self._first_rings = first_rings
        self._take_over = take_over
        self._tend = node.tend_queues
        self._rung: dict[str, Rung] = {}
        self._staying: frozenset[Holder] = frozenset()
        self._prune_at = self._leased_until = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to sweep, once a second, while this node has the lease."""
        self._task = keep_at(self._run, name="sweep", clock=self._clock, log=self._log)

    async def stop(self) -> None:
        """Ends; another node may take the lease at once."""
        await self.cancel()
        now, leased_until, self._leased_until = self._clock.now().steady, self._leased_until, 0
        if now < leased_until:
            with contextlib.suppress(StoreError):  # then it runs out by itself
                await self._nodes.lease(LEASE_NAME, self._holder, now, now)

    async def cancel(self) -> None:
        """Ends as with the process; another node takes the lease when it has run out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self.take_doubtful()
                if await self._has_lease():
                    await self.sweep()
                self._outage.succeed()
            except StoreError as error:
                self._outage.fail(str(error))
            await self._clock.sleep(PERIOD_MS)

    async def take_doubtful(self) -> None:
        """Takes the deliveries that this node has, though no answer to it said so. Raises StoreError.

        Another node may have the lease by now, and cannot adopt them.
        """
        self._take_over((), await self._store.deliveries_in_doubt(self._heartbeat.others, self._holder))

    async def sweep(self) -> None:
        """One round. Raises StoreError."""
        now = self._clock.now()
        # What comes late but comes is not rung a second time: in a herd that took a way through daprd each.
        after = OVERDUE_AFTER_MS + min(self._lag(), MOST_LAG_MS)
        late = Now(now.wall - after, now.steady - after)
        alive = (self._holder, *self._heartbeat.others)
        await self._first_rings.look(alive, now)
        job_ids = dict.fromkeys(await self._store.overdue(late, RINGS_PER_SECOND))
        job_ids |= dict.fromkeys(await self._abandoned(frozenset(alive) - self._heartbeat.stopping, now))
        await self._ring_all(list(job_ids))
        # Each at once: what is this node's by now, and not in its hands, nobody adopts while it lives.
        self._take_over(await self._store.adopt_records(alive, self._holder, BATCH_SIZE), ())
        self._take_over((), await self._store.adopt(alive, self._holder, BATCH_SIZE, self._note_damaged))
        await self._tend()
        if now.steady >= self._prune_at:
            self._prune_at = now.steady + HOUR
            await self._store.prune(now)
            await self._heartbeat.forget_old()

    async def _has_lease(self) -> bool:
        """A node that is past its heartbeat, or without its sidecar, leaves the lease to another one."""
        if not self._heartbeat.liveness.is_current:
            return False
        now = self._clock.now().steady
        has_lease = await self._nodes.lease(LEASE_NAME, self._holder, now, now + LEASE_MS)
        self._leased_until = now + LEASE_MS if has_lease else 0
        return has_lease

    async def _abandoned(self, staying: frozenset[Holder], now: Now) -> list[str]:
        """Jobs of nodes that are not `staying`: each once a minute, for a ring may change nothing.

        Again for another claim, and where others stay: a node that joined just now is not known here yet.
        """
        if staying != self._staying:
            self._staying, self._rung = staying, {}
        self._rung = {job: rung for job, rung in self._rung.items() if now.steady - rung.at < MINUTE}
        limit = RINGS_PER_SECOND + len(self._rung)  # so many more are found, whichever come first
        found = await self._store.abandoned(staying, now.steady - RECENT_MS, limit)
        new = {job: Rung(claim, now.steady) for job, claim in found.items() if not self._is_rung(job, claim)}
        new = dict(list(new.items())[:RINGS_PER_SECOND])
        self._rung |= new
        return list(new)

    def _is_rung(self, job_id: str, claimed_at: int) -> bool:
        rung = self._rung.get(job_id)
        return rung is not None and rung.claimed_at == claimed_at

    async def _ring_all(self, job_ids: list[str]) -> None:
        for start in range(0, len(job_ids), RINGS_AT_ONCE):
            some = job_ids[start : start + RINGS_AT_ONCE]
            await asyncio.gather(*map(self._ring, some))
