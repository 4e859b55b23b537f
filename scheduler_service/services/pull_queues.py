"""Pull queues: instances claim parts, hold them under leases and complete them (SPEC section 13).

A part's end is durable before it is acknowledged, and so are the changes of its leases: a crash delays them
and loses none. They are delivered until their job has taken them, or no longer awaits them; a job takes each
once, however often it is delivered.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from enum import Enum, auto
from typing import Any, TypeVar

from scheduler_service.domain.effects import PublishParts, QueueWrite, next_check
from scheduler_service.domain.leases import (
    ChangedPart,
    Claim,
    EndedPart,
    Freeing,
    HeldPart,
    Leased,
    LeaseHolder,
    QueueFigures,
    QueueQuery,
    Renewed,
    Swept,
)
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import Kind
from scheduler_service.domain.replies import Refusal, Reply, Unchanged
from scheduler_service.domain.step_parts import PartEnd, write_part_id
from scheduler_service.domain.turn_events import LeasesChanged, PartEnded, PartProgressed
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.delivery import Command, Deliver
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.ports.queues import Queues
from scheduler_service.services.pauses import Pauses
from scheduler_service.services.rate_windows import ClaimRate
from scheduler_service.services.waiters import Waits
from scheduler_service.timing.backoff import doubling_pauses

PAGE_SIZE = 500
FIRST_PAUSE, LONGEST_PAUSE = 100, 5 * SECOND
"""Between two deliveries, in ms."""
Result = TypeVar("Result")
Part = TypeVar("Part", EndedPart, ChangedPart)


async def each_part(read: Callable[[str, int], Awaitable[Sequence[Part]]]) -> AsyncIterator[Part]:
    """What `read` finds in the order of the ids of parts, given the last one before and how many at most."""
    after, is_full = "", True
    while is_full:
        found = await read(after, PAGE_SIZE)
        for one in found:
            yield one
        is_full = len(found) == PAGE_SIZE
        after = found[-1].part_id if found else after


class PartDelivery:
    """The deliveries of one process. `deliver` is set before the first of them."""

    deliver: Deliver
    _unknown_writes = 0

    def __init__(self, *, table: Queues, clock: Timekeeper, log: Log) -> None:
        self._table = table
        self._clock = clock
        self._log = log
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way to a job."""
        return not self._tasks

    async def stop(self) -> None:
        """Stops; what is not delivered yet is delivered after the next start."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Runs `work` beside the caller, until `stop`."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def deliver_end(self, ended: EndedPart) -> "asyncio.Task[bool]":
        """Delivers the end of a part; the result is whether it had an effect."""
        return self.start(self._deliver_end(ended))

    def deliver_claims(self, found: tuple[Leased, ...]) -> None:
        """Tells the jobs who holds their parts from now on."""
        for one in found:
            name = one.part.name
            self.deliver_changes(ChangedPart(write_part_id(name), one.part.job_id, name, one.changes))

    def deliver_changes(self, changed: ChangedPart) -> "asyncio.Task[Reply]":
        """Delivers the lease changes of a part."""
        command = Command(LeasesChanged(changed.name, changed.changes))
        return self.start(self.retry(lambda: self.deliver(changed.job_id, command)))

    async def deliver_stored(self) -> None:
        """Begins to deliver all that the table has and its jobs may not have. Raises StoreError."""
        async for ended in each_part(self._table.ended):
            self.deliver_end(ended)
        async for changed in each_part(self._table.changed):
            self.deliver_changes(changed)

    def note_failed_write(self, error: StoreError) -> None:
        """After a write with an unknown result, delivers what may have become durable."""
        if isinstance(error, StoreUnavailable):
            return
        self._unknown_writes += 1
        if self._unknown_writes == 1:
            self.start(self._find_stored())

    async def retry(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """The result of `work`, repeated with growing pauses after each error, also an unexpected one."""
        pauses = iter(doubling_pauses(FIRST_PAUSE, LONGEST_PAUSE))
        while True:
            try:
                return await work()
            except StoreError as error:
                self._log("part_not_delivered", error=str(error))
            except Exception as error:  # noqa: BLE001 - what is delivered is durable; nobody else reports a fault
                self._log("part_not_delivered", error=f"{type(error).__name__}: {error}")
            await self._clock.sleep(next(pauses))

    async def _find_stored(self) -> None:
        """One search at a time; another one follows if a further write had an unknown result meanwhile."""
        while self._unknown_writes:
            seen = self._unknown_writes
            await self.retry(self.deliver_stored)
            self._unknown_writes -= seen

    async def _deliver_end(self, ended: EndedPart) -> bool:
        async def deliver() -> Reply:
            event = PartEnded(ended.name, ended.end, ended.request, ended.changes)
            reply = await self.deliver(ended.job_id, Command(event))
            if isinstance(reply, (Unchanged, Refusal)):
                await self._table.drop(ended.part_id)
            return reply

        return not isinstance(await self.retry(deliver), (Unchanged, Refusal))


DRAINING_POLL_MS = SECOND
"""How often a draining instance's claim checks for a change: a heartbeat wakes no claim."""
EFFECT_SECONDS = 5.0
"""How long the answer to a completion waits for its effect; the end is durable before."""

Allowance = Callable[[str, str, str], int | None]
"""How many parts of a tenant's queue an instance may hold at a time; None: no limit."""


class Completed(Enum):
    """What a completion came to."""

    ACCEPTED = auto()
    LOST = auto()  # the lease had ended, or was completed differently
    STALE = auto()  # the job did not wait for the part any more


class PullQueues:
    """The queues of one process. `start` connects them to the jobs; until then claims are refused."""

    _allowance: Allowance
    _rate: ClaimRate
    _pauses: Pauses
    _is_stopping = False
    _has_started = False

    def __init__(
        self,
        *,
        table: Queues,
        clock: Timekeeper,
        log: Log,
        effect_seconds: float = EFFECT_SECONDS,
    ) -> None:
        self._effect_seconds = effect_seconds
        self._table = table
        self._clock = clock
        self._log = log
        self._waits = Waits(clock=clock)
        self.delivery = PartDelivery(table=table, clock=clock, log=log)
        self._claiming: set[asyncio.Task[tuple[tuple[Leased, ...], int | None]]] = set()
        self._alarm: Alarm | None = None
        self._next_sweep: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way to a job."""
        return self.delivery.is_idle

    @property
    def has_started(self) -> bool:
        """Whether there are jobs to deliver to."""
        return self._has_started

    @property
    def awaited(self) -> list[tuple[str, str]]:
        """The queues (tenant, name) for whose parts claims wait."""
        return [(key[0], key[1]) for key in self._waits.keys if len(key) > 1]

    async def start(self, deliver: Deliver, allowance: Allowance, rate: ClaimRate, pauses: Pauses) -> None:
        """Connects to the jobs; extends leases and delivers the ends that are stored. Raises StoreError."""
        self.delivery.deliver, self._allowance, self._rate = deliver, allowance, rate
        self._pauses = pauses
        pauses.subscribe(self._follow_pause)
        self._has_started = True
        await self._table.extend(self._clock.now().steady)
        await self.delivery.deliver_stored()
        self.delivery.start(self._sweep())

    def stop_claims(self) -> None:
        """Ends waiting claims and gives out no more parts; leases can still be renewed and completed."""
        self._is_stopping = True
        self._waits.wake_all()

    async def stop(self) -> None:
        """Stops; ends that are not delivered yet are delivered after the next start."""
        self.stop_claims()
        if self._alarm is not None:
            self._alarm.cancel()
        await self.delivery.stop()
        await asyncio.gather(*self._claiming, return_exceptions=True)

    async def claim(
        self, tenant: str, queue: str, instance: str, *, most: int, wait: int
    ) -> tuple[Leased, ...]:
        """Up to `most` parts for the instance; waits up to `wait` ms for the first. Raises StoreError.

        None while the queue is paused.
        """
        self._check_open()
        end = self._clock.now().steady + wait
        while not self._is_stopping:
            wakeups = self._waits.wakeups
            allowed = self._allowance(tenant, queue, instance)
            is_paused = self._pauses.since(Kind.QUEUE, tenant, queue) is not None
            pause: int | None = None if is_paused else DRAINING_POLL_MS
            if allowed != 0 and not is_paused:
                found, pause = await self._lease(tenant, queue, instance, most, allowed)
                if found:
                    return found
            left = end - self._clock.now().steady
            if left <= 0:
                break
            if wakeups == self._waits.wakeups:
                pause = left if pause is None else min(left, pause)
                await self._waits.wait((tenant, queue), (instance,), most=pause)
        return ()

    async def _lease(
        self, tenant: str, queue: str, instance: str, most: int, capacity: int | None
    ) -> tuple[tuple[Leased, ...], int | None]:
        """Claims without waiting, and says how long the rate limit allows nothing (ms; None: it does).

        Completes even if the caller disconnects; what it then gets is handed back. Raises StoreError.
        """

        def take(allowed: int) -> Coroutine[Any, Any, tuple[Leased, ...]]:
            leases = tuple(secrets.token_urlsafe(18) for _ in range(allowed))
            return self._claim(Claim(tenant, queue, instance, leases, self._clock.now().steady, capacity))

        claiming = asyncio.ensure_future(self._rate.claim(tenant, queue, most, take))
        self._claiming.add(claiming)
        claiming.add_done_callback(self._claiming.discard)
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(self._drop_claimed)
            raise

    async def renew(
        self,
        lease: str,
        *,
        progress: str | None = None,
        message: str | None = None,
        holder: LeaseHolder | None = None,
    ) -> Renewed | None:
        """Renews a lease of `holder` (None: of anybody) and reports progress to the job.

        None: the lease is lost, or not the holder's. Raises StoreError.
        """
        if progress or message:
            self._check_open()
        renewed = await self._table.renew(lease, self._clock.now().steady, holder)
        if renewed is not None and not renewed.cancelled and (progress or message):
            event = PartProgressed(renewed.name, progress, message)
            await self.delivery.deliver(renewed.job_id, Command(event))
        return renewed

    async def complete(self, lease: str, end: PartEnd, holder: LeaseHolder | None = None) -> Completed:
        """Stores the part's end, and delivers it to its job; a lease that is not `holder`'s is `LOST`.

        Raises StoreError.

        `ACCEPTED`: it is durable. The first end counts: repeating it is accepted again, another is `LOST`.
        This holds for a day, also after a restart, for as many leases as the store keeps.
        """
        self._check_open()
        try:
            result = await self._table.complete(lease, end, self._clock.now().steady, holder)
        except StoreError as error:
            self.delivery.note_failed_write(error)
            raise
        if not isinstance(result, EndedPart):
            return Completed.ACCEPTED if result else Completed.LOST
        if result.is_withdrawn:
            return Completed.STALE
        delivering = self.delivery.deliver_end(result)
        self._waits.wake([(result.end.instance,)])  # it has room again
        await asyncio.wait({delivering}, timeout=self._effect_seconds)
        is_accepted = delivering.done() and not delivering.cancelled() and delivering.result()
        if not is_accepted:
            # Its job may not have heard of it, or from another node: repeated it stays accepted, whatever its
            # job says later, over a crash too. What the job did not want is not known any more.
            is_accepted = bool(await self._table.complete(lease, end, self._clock.now().steady, holder))
        return Completed.ACCEPTED if is_accepted else Completed.STALE

    async def resume(self, tenant: str, queue: str) -> None:
        """The pause of a queue is over: what waits may be claimed. Raises StoreError; then repeat it."""
        self._check_open()
        since = self._pauses.since(Kind.QUEUE, tenant, queue)
        if since is None:
            return
        await self._table.go_on(tenant, queue, since, self._clock.now().steady)
        await self._pauses.resume(Kind.QUEUE, tenant, queue)
        self.delivery.start(self._sweep())  # finds when the first queue timeout ends

    async def free(self, tenant: str, queue: str, part_id: str) -> bool:
        """Takes a part from whoever holds it: its lease ends as one that was not renewed. Raises StoreError.

        False: nobody holds it. Its job is told, and claims get it after its `unexpectedRetryDelaySeconds`.
        """
        self._check_open()
        return await self._free(Freeing(tenant, queue, part_id, self._clock.now().steady))

    def hand_back(self, found: Iterable[Leased]) -> None:
        """Frees claimed parts of which no instance will hear: others get them at once, beside the caller.

        Not while stopping: then they are free when their leases end.
        """
        if not self._is_stopping:
            for one in found:
                self.delivery.start(self._hand_back(one))

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        """How many parts wait in which queues, and how many are leased. Raises StoreError."""
        return await self._table.figures(query)

    async def held(self, query: QueueQuery) -> list[HeldPart]:
        """Which instances have what of a queue, and until when (steady ms). Raises StoreError."""
        return await self._table.held(query)

    def wake_for(self, write: QueueWrite) -> None:
        """A turn has written to the queues: waiting claims retry."""
        keys = (
            {(part.tenant, part.queue) for part in write.parts} if isinstance(write, PublishParts) else None
        )
        self.wake(keys, next_check(write))

    def wake(self, keys: Iterable[tuple[str, str]] | None, check_at: int | None = None) -> None:
        """Waiting claims of these queues (tenant, name) retry; None: all of them.

        `check_at`: when queue timeouts are checked at the latest (steady ms); None: as before.
        """
        if check_at is not None and self._has_started:
            self._sweep_by(check_at)
        if keys is None:
            self._waits.wake_all()
        else:
            self._waits.wake(keys)

    def recover(self) -> None:
        """A process that writes to the queues has died: what it has told nobody of is found."""
        self.wake(None, check_at=self._clock.now().steady)

    def _check_open(self) -> None:
        """Raises StoreUnavailable before `start`: callers are answered already, and no job can be told."""
        if not self._has_started:
            raise StoreUnavailable("the queues are not open yet; ask again in a moment", is_public=True)

    def _drop_claimed(self, claiming: "asyncio.Task[tuple[tuple[Leased, ...], int | None]]") -> None:
        if not claiming.cancelled() and claiming.exception() is None:
            self.hand_back(claiming.result()[0])

    async def _hand_back(self, one: Leased) -> None:
        part, now = one.part, self._clock.now().steady
        try:
            await self._free(Freeing(part.tenant, part.queue, write_part_id(part.name), now, one.lease))
        except StoreError as error:  # the part is free when its lease ends
            self._log("claim_not_returned", error=str(error))

    async def _free(self, freeing: Freeing) -> bool:
        """Whether there was such a lease, which has ended. Raises StoreError."""
        try:
            freed = await self._table.free(freeing)
        except StoreError as error:
            self.delivery.note_failed_write(error)  # it may have become durable
            self.delivery.start(self._sweep())
            raise
        if freed is not None:
            self.take(freed)
        return freed is not None

    async def _claim(self, claim: Claim) -> tuple[Leased, ...]:
        """Claims, and schedules a sweep for when the given leases end. Raises StoreError."""
        if self._pauses.since(Kind.QUEUE, claim.tenant, claim.queue) is not None:
            return ()  # since it began to wait for the rate limit
        try:
            found = await self._table.claim(claim)
        except StoreError:
            self.delivery.start(self._sweep())  # the claim may have become durable
            raise
        if found:
            self.delivery.deliver_claims(found)
            self._sweep_by(min(one.until for one in found))
        return found

    def _sweep_by(self, moment: int) -> None:
        """Schedules a sweep of the leases at `moment` or earlier."""
        if self._is_stopping or (self._next_sweep is not None and self._next_sweep <= moment):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._next_sweep = moment
        pause = max(moment - self._clock.now().steady, 1)
        self._alarm = self._clock.call_after(pause, lambda: self.delivery.start(self._sweep()))

    async def _sweep(self) -> None:
        """Ends leases and queue timeouts, tells the jobs, and wakes claims for parts that are free."""
        self._next_sweep = None
        try:
            swept = await self.sweep()
        except StoreError as error:
            self._log("leases_not_swept", error=str(error))
            self.delivery.note_failed_write(error)
            self._sweep_by(self._clock.now().steady + SECOND)
            return
        self.take(swept)

    async def sweep(self) -> Swept:
        """Ends leases and queue timeouts, those of paused queues left out. Raises StoreError."""
        now = self._clock.now().steady
        for one in self._pauses.all(Kind.QUEUE):
            await self._table.hold(one.tenant, one.name, now)
        return await self._table.sweep(now)

    def take(self, swept: Swept) -> None:
        """What a sweep has found: tells the jobs, and wakes claims for parts that are free."""
        for ended in swept.ended:
            self.delivery.deliver_end(ended)
        for freed in swept.freed:
            self.delivery.deliver_changes(freed)
        if swept.next_look is not None:
            self._sweep_by(swept.next_look)
        self._waits.wake_all()

    def _follow_pause(self, kind: Kind, tenant: str, name: str) -> None:
        """Claims that wait look whether there is something for them now."""
        if kind is Kind.QUEUE:
            self._waits.wake([(tenant, name)])
