"""Pull queues: instances claim parts, hold them under leases and complete them (SPEC section 13).

A part's end is durable before it is acknowledged; it is then delivered until its job has taken it. A job that
has it already, or no longer awaits it, does not change.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from scheduler_service.domain.backoff import doubling_pauses
from scheduler_service.domain.effects import PublishParts, QueueWrite
from scheduler_service.domain.events import PartEnded, PartProgressed
from scheduler_service.domain.leases import Claim, EndedPart, Leased, Renewed
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.parts import PartEnd
from scheduler_service.domain.replies import Refusal, Unchanged
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.delivery import Command, Deliver
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.ports.queues import Queues

PAGE_SIZE = 500
DRAINING_POLL_MS = SECOND
"""How often a draining instance's claim checks for a change: a heartbeat wakes no claim."""
FIRST_PAUSE, LONGEST_PAUSE = 100, 5 * SECOND
"""Between two deliveries of a part's end, in ms."""

NewLease = Callable[[], str]
Allowance = Callable[[str, str, str], int | None]
"""How many parts of a tenant's queue an instance may hold at a time; None: no limit."""


class PullQueues:
    """The queues of one process. `start` connects them to the jobs; until then claims are refused."""

    _deliver: Deliver
    _allowance: Allowance
    _is_stopping = False
    _has_started = False
    _unknown_writes = 0

    def __init__(
        self,
        *,
        table: Queues,
        clock: Timekeeper,
        log: Log,
        new_lease: NewLease = lambda: secrets.token_urlsafe(18),
    ) -> None:
        self._table = table
        self._clock = clock
        self._log = log
        self._new_lease = new_lease
        self._waiting: dict[tuple[str, ...], set[asyncio.Future[None]]] = {}
        self._wakeups = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._claiming: set[asyncio.Task[tuple[Leased, ...]]] = set()
        self._alarm: Alarm | None = None
        self._next_sweep: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no end of a part is on its way to its job."""
        return not self._tasks

    async def start(self, deliver: Deliver, allowance: Allowance) -> None:
        """Connects to the jobs; extends all leases and delivers stored ends. Raises StoreError."""
        self._deliver, self._allowance = deliver, allowance
        self._has_started = True
        await self._resume(self._table)

    def stop_claims(self) -> None:
        """Ends waiting claims and gives out no more parts; leases can still be renewed and completed."""
        self._is_stopping = True
        self._wake_all()

    async def stop(self) -> None:
        """Stops; ends that are not delivered yet are delivered after the next start."""
        self.stop_claims()
        if self._alarm is not None:
            self._alarm.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._claiming, return_exceptions=True)

    async def claim(
        self, tenant: str, queue: str, instance: str, *, most: int, wait: int
    ) -> tuple[Leased, ...]:
        """Up to `most` parts for the instance; waits up to `wait` ms for the first. Raises StoreError."""
        if not self._has_started:
            raise StoreUnavailable("the queues are not open yet; ask again in a moment")
        end = self._clock.now().steady + wait
        while not self._is_stopping:
            wakeups = self._wakeups
            allowed = self._allowance(tenant, queue, instance)
            found = () if allowed == 0 else await self._lease(tenant, queue, instance, most, allowed)
            if found:
                return found
            left = end - self._clock.now().steady
            if left <= 0:
                break
            if wakeups == self._wakeups:
                pause = min(left, DRAINING_POLL_MS) if allowed == 0 else left
                await self._wait(((tenant, queue), (instance,)), pause)
        return ()

    async def _lease(
        self, tenant: str, queue: str, instance: str, most: int, capacity: int | None
    ) -> tuple[Leased, ...]:
        """Claims without waiting; completes even if the caller disconnects. Raises StoreError."""
        leases = tuple(self._new_lease() for _ in range(most))
        claim = Claim(tenant, queue, instance, leases, self._clock.now().steady, capacity)
        claiming = asyncio.ensure_future(self._claim(claim))
        self._claiming.add(claiming)
        claiming.add_done_callback(self._claiming.discard)
        return await asyncio.shield(claiming)

    async def renew(
        self, lease: str, *, progress: str | None = None, message: str | None = None
    ) -> Renewed | None:
        """Renews a lease and reports progress to the job. None: the lease is lost. Raises StoreError."""
        renewed = await self._table.renew(lease, self._clock.now().steady)
        if renewed is not None and not renewed.cancelled and (progress or message):
            await self._deliver(renewed.job_id, Command(PartProgressed(renewed.name, progress, message)))
        return renewed

    async def complete(self, lease: str, end: PartEnd) -> bool:
        """Stores the part's end; True: it is durable, False: the lease is lost. Raises StoreError.

        The first end counts: repeating it returns True, another one False. This holds for a day, also after a
        restart, for as many leases as the store keeps.
        """
        try:
            result = await self._table.complete(lease, end, self._clock.now().steady)
        except StoreError as error:
            self._note_failed_write(error)
            raise
        if isinstance(result, EndedPart):
            self._spawn(self._deliver_end(result))
            self._wakeups += 1
            self._wake(self._waiting.get((result.end.instance,), set()))  # it has room again
        return bool(result)

    def wake_for(self, write: QueueWrite) -> None:
        """A turn has written to the queues: waiting claims retry."""
        if isinstance(write, PublishParts):
            self.wake({(part.tenant, part.queue) for part in write.parts})
        else:
            self.wake(None)

    def wake(self, keys: Iterable[tuple[str, str]] | None) -> None:
        """Waiting claims of these queues (tenant, name) retry; None: all of them."""
        if keys is None:
            self._wake_all()
            return
        self._wakeups += 1
        for key in keys:
            self._wake(self._waiting.get(key, set()))

    def recover(self, part: Queues) -> None:
        """A part of the table is available again: extends its leases, delivers its ends."""
        if self._has_started:
            self._spawn(self._retry(lambda: self._resume(part)))

    async def _claim(self, claim: Claim) -> tuple[Leased, ...]:
        """Claims, and schedules a sweep for when the given leases end. Raises StoreError."""
        try:
            found = await self._table.claim(claim)
        except StoreError:
            self._spawn(self._sweep())  # the claim may have become durable
            raise
        if found:
            self._sweep_by(min(one.until for one in found))
        return found

    async def _wait(self, keys: tuple[tuple[str, ...], ...], left: int) -> None:
        """Returns when the queue has work, the instance has room again, or `left` ms have passed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, set()).add(waiter)
        alarm = self._clock.call_after(left, lambda: self._wake({waiter}))
        try:
            await waiter
        finally:
            alarm.cancel()
            for key in keys:
                self._stop_waiting(key, waiter)

    def _stop_waiting(self, key: tuple[str, ...], waiter: asyncio.Future[None]) -> None:
        waiters = self._waiting.get(key, set())
        waiters.discard(waiter)
        if not waiters:
            self._waiting.pop(key, None)

    def _wake_all(self) -> None:
        self._wakeups += 1
        for waiters in list(self._waiting.values()):
            self._wake(waiters)

    @staticmethod
    def _wake(waiters: set[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _sweep_by(self, moment: int) -> None:
        """Schedules a sweep of the leases at `moment` or earlier."""
        if self._is_stopping or (self._next_sweep is not None and self._next_sweep <= moment):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._next_sweep = moment
        pause = max(moment - self._clock.now().steady, 1)
        self._alarm = self._clock.call_after(pause, lambda: self._spawn(self._sweep()))

    async def _sweep(self) -> None:
        """Ends expired leases, delivers their ends, and wakes claims for parts that are free again."""
        self._next_sweep = None
        try:
            swept = await self._table.sweep(self._clock.now().steady)
        except StoreError as error:
            self._log("leases_not_swept", error=str(error))
            self._note_failed_write(error)
            self._sweep_by(self._clock.now().steady + SECOND)
            return
        for ended in swept.ended:
            self._spawn(self._deliver_end(ended))
        if swept.next_look is not None:
            self._sweep_by(swept.next_look)
        self._wake_all()

    def _note_failed_write(self, error: StoreError) -> None:
        """After a write with an unknown result, delivers the ends that may have become durable."""
        if isinstance(error, StoreUnavailable):
            return
        self._unknown_writes += 1
        if self._unknown_writes == 1:
            self._spawn(self._find_ends())

    async def _find_ends(self) -> None:
        """One search at a time; another one follows if a further write had an unknown result meanwhile."""
        while self._unknown_writes:
            seen = self._unknown_writes
            await self._retry(lambda: self._deliver_stored_ends(self._table))
            self._unknown_writes -= seen

    async def _resume(self, table: Queues) -> None:
        await table.extend(self._clock.now().steady)
        await self._deliver_stored_ends(table)
        self._spawn(self._sweep())

    async def _deliver_stored_ends(self, table: Queues) -> None:
        after = ""
        while True:
            page = await table.ended(after, PAGE_SIZE)
            for ended in page:
                self._spawn(self._deliver_end(ended))
            if len(page) < PAGE_SIZE:
                return
            after = page[-1].part_id

    async def _deliver_end(self, ended: EndedPart) -> None:
        async def deliver() -> None:
            reply = await self._deliver(
                ended.job_id, Command(PartEnded(ended.name, ended.end, ended.request))
            )
            if isinstance(reply, (Unchanged, Refusal)):
                await self._table.drop(ended.part_id)

        await self._retry(deliver)

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeats `work`, with growing pauses, until the store is available."""
        for pause in doubling_pauses(FIRST_PAUSE, LONGEST_PAUSE):
            try:
                await work()
                return
            except StoreError as error:
                self._log("part_not_delivered", error=str(error))
            await self._wait((), pause)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
