"""Pull queues: instances claim parts, hold them under leases and complete them (SPEC section 13).

A part's end is durable before it is acknowledged, and is then taken to its job again and again until the job
has it; a job that has it already, or awaits it no more, changes nothing.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol

from scheduler_service.domain.effects import PublishParts, QueueWrite
from scheduler_service.domain.events import PartEnded, PartProgressed
from scheduler_service.domain.leases import Claim, EndedPart, Leased, Renewed
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.parts import PartEnd
from scheduler_service.domain.replies import Refusal, Unchanged
from scheduler_service.ports.delivery import Deliver
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.queues import Queues
from scheduler_service.services.wait_queues import PauseAlarm, PausingClock

PAGE = 500
LOOK = SECOND
"""How often the claim of a draining instance looks whether it takes work again: heartbeats tell nobody."""
FIRST_PAUSE, LONGEST_PAUSE = 100, 5 * SECOND

NewLease = Callable[[], str]
Allowance = Callable[[str, str, str], int | None]
"""How many parts of a tenant's queue an instance may hold at a time; None: no limit."""


class Log(Protocol):
    """Writes one structured line."""

    def __call__(self, event: str, /, **keys: object) -> None:
        """Never raises."""


class PullQueues:
    """The queues of one process. `start` binds them to the jobs; before it nobody may claim."""

    _deliver: Deliver
    _allowance: Allowance
    _is_stopping = False
    _has_started = False
    _doubts = 0

    def __init__(
        self,
        *,
        table: Queues,
        clock: PausingClock,
        log: Log,
        new_lease: NewLease = lambda: secrets.token_urlsafe(18),
    ) -> None:
        self._table = table
        self._clock = clock
        self._log = log
        self._new_lease = new_lease
        self._waiting: dict[tuple[str, ...], set[asyncio.Future[None]]] = {}
        self._stirs = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._takings: set[asyncio.Task[tuple[Leased, ...]]] = set()
        self._alarm: PauseAlarm | None = None
        self._next_look: int | None = None

    async def start(self, deliver: Deliver, allowance: Allowance) -> None:
        """Takes up what an earlier process left: leases get their whole length, ends go to their jobs.

        Raises StoreError.
        """
        self._deliver, self._allowance = deliver, allowance
        self._has_started = True
        await self._take_up(self._table)

    def stop_claims(self) -> None:
        """Those who wait get nothing, nor does anybody else; leases go on, and parts may be completed."""
        self._is_stopping = True
        self._stir_all()

    async def stop(self) -> None:
        """Ends that are on their way to their jobs are taken up by the next start."""
        self.stop_claims()
        if self._alarm is not None:
            self._alarm.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._takings, return_exceptions=True)

    async def claim(
        self, tenant: str, queue: str, instance: str, *, most: int, wait: int
    ) -> tuple[Leased, ...]:
        """Up to `most` parts that the instance may have, waited for up to `wait` ms. Raises StoreError."""
        if not self._has_started:
            raise StoreUnavailable("the queues are not open yet; ask again in a moment")
        end = self._clock.now().steady + wait
        while not self._is_stopping:
            stirs = self._stirs
            allowed = self._allowance(tenant, queue, instance)
            found = () if allowed == 0 else await self._lease(tenant, queue, instance, most, allowed)
            if found:
                return found
            left = end - self._clock.now().steady
            if left <= 0:
                break
            if stirs == self._stirs:
                await self._wait(((tenant, queue), (instance,)), min(left, LOOK) if allowed == 0 else left)
        return ()

    async def _lease(
        self, tenant: str, queue: str, instance: str, most: int, capacity: int | None
    ) -> tuple[Leased, ...]:
        """What it may have now; leases of one that hangs up are known all the same. Raises StoreError."""
        leases = tuple(self._new_lease() for _ in range(most))
        claim = Claim(tenant, queue, instance, leases, self._clock.now().steady, capacity)
        taking = asyncio.ensure_future(self._take(claim))
        self._takings.add(taking)
        taking.add_done_callback(self._takings.discard)
        return await asyncio.shield(taking)

    async def renew(
        self, lease: str, *, progress: str | None = None, message: str | None = None
    ) -> Renewed | None:
        """The lease goes on; None: it is lost, stop working. `progress` is the job's. Raises StoreError."""
        renewed = await self._table.renew(lease, self._clock.now().steady)
        if renewed is not None and not renewed.cancelled and (progress or message):
            await self._deliver(renewed.job_id, PartProgressed(renewed.name, progress, message))
        return renewed

    async def complete(self, lease: str, end: PartEnd) -> bool:
        """The part's end, durable when this returns True; False: the lease is lost. Raises StoreError.

        The same end again is True, another one False: the first one counts. So it is for a day, also after
        a restart, for as many leases as the store keeps.
        """
        try:
            said = await self._table.complete(lease, end, self._clock.now().steady)
        except StoreError as error:
            self._doubt(error)
            raise
        if isinstance(said, EndedPart):
            self._spawn(self._bring_home(said))
            self._stirs += 1
            self._wake(self._waiting.get((said.end.instance,), set()))  # it has room again
        return bool(said)

    def wake_for(self, write: QueueWrite) -> None:
        """A turn has written into the queues: those who wait for work look again."""
        if isinstance(write, PublishParts):
            self.wake({(part.tenant, part.queue) for part in write.parts})
        else:
            self.wake(None)

    def wake(self, keys: Iterable[tuple[str, str]] | None) -> None:
        """Those who wait for work of these queues (tenant, name) look again; None: all do."""
        if keys is None:
            self._stir_all()
            return
        self._stirs += 1
        for key in keys:
            self._wake(self._waiting.get(key, set()))

    def recover(self, part: Queues) -> None:
        """A part of the table was away: its leases get their whole length, its ends go to their jobs."""
        if self._has_started:
            self._spawn(self._insist(lambda: self._take_up(part)))

    async def _take(self, claim: Claim) -> tuple[Leased, ...]:
        """Leases that are given, heard of or not, are looked at when they end. Raises StoreError."""
        try:
            found = await self._table.claim(claim)
        except StoreError:
            self._spawn(self._look())  # it may be durable all the same
            raise
        if found:
            self._look_at(min(one.until for one in found))
        return found

    async def _wait(self, keys: tuple[tuple[str, ...], ...], left: int) -> None:
        """Returns when somebody stirs the queue, or makes room for the instance, or after `left` ms."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, set()).add(place)
        alarm = self._clock.call_after(left, lambda: self._wake({place}))
        try:
            await place
        finally:
            alarm.cancel()
            for key in keys:
                self._step_aside(key, place)

    def _step_aside(self, key: tuple[str, ...], place: asyncio.Future[None]) -> None:
        places = self._waiting.get(key, set())
        places.discard(place)
        if not places:
            self._waiting.pop(key, None)

    def _stir_all(self) -> None:
        self._stirs += 1
        for places in list(self._waiting.values()):
            self._wake(places)

    @staticmethod
    def _wake(places: set[asyncio.Future[None]]) -> None:
        for place in places:
            if not place.done():
                place.set_result(None)

    def _look_at(self, moment: int) -> None:
        """Looks at the leases at `moment` at the latest."""
        if self._is_stopping or (self._next_look is not None and self._next_look <= moment):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._next_look = moment
        pause = max(moment - self._clock.now().steady, 1)
        self._alarm = self._clock.call_after(pause, lambda: self._spawn(self._look()))

    async def _look(self) -> None:
        """Ends what has no sign of life; what is free again, or free at last, is there for those who wait."""
        self._next_look = None
        try:
            swept = await self._table.sweep(self._clock.now().steady)
        except StoreError as error:
            self._log("leases_not_swept", error=str(error))
            self._doubt(error)
            self._look_at(self._clock.now().steady + SECOND)
            return
        for ended in swept.ended:
            self._spawn(self._bring_home(ended))
        if swept.next_look is not None:
            self._look_at(swept.next_look)
        self._stir_all()

    def _doubt(self, error: StoreError) -> None:
        """After a write of which nobody knows: what is over and was not told is told."""
        if isinstance(error, StoreUnavailable):
            return
        self._doubts += 1
        if self._doubts == 1:
            self._spawn(self._look_for_ends())

    async def _look_for_ends(self) -> None:
        """One look at a time, and another one after it where there was a further doubt meanwhile."""
        while self._doubts:
            seen = self._doubts
            await self._insist(lambda: self._take_up_ends(self._table))
            self._doubts -= seen

    async def _take_up(self, table: Queues) -> None:
        await table.extend(self._clock.now().steady)
        await self._take_up_ends(table)
        self._spawn(self._look())

    async def _take_up_ends(self, table: Queues) -> None:
        after = ""
        while True:
            page = await table.ended(after, PAGE)
            for ended in page:
                self._spawn(self._bring_home(ended))
            if len(page) < PAGE:
                return
            after = page[-1].part_id

    async def _bring_home(self, ended: EndedPart) -> None:
        async def tell() -> None:
            reply = await self._deliver(ended.job_id, PartEnded(ended.name, ended.end, ended.request))
            if isinstance(reply, (Unchanged, Refusal)):
                await self._table.drop(ended.part_id)

        await self._insist(tell)

    async def _insist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Tries again, with growing pauses, as long as the store is away."""
        pause = FIRST_PAUSE
        while True:
            try:
                await work()
            except StoreError as error:
                self._log("part_not_told", error=str(error))
            else:
                return
            await self._pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _pause(self, pause: int) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        alarm = self._clock.call_after(pause, lambda: self._wake({over}))
        try:
            await over
        finally:
            alarm.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
