"""Delivers the ends of parts and the changes of their leases to their jobs (SPEC section 13).

Both are durable in the queue before, and delivered until the job has them: a crash delays them and loses
none. A job takes each of them once, however often it is delivered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from scheduler_service.domain.backoff import doubling_pauses
from scheduler_service.domain.events import LeasesChanged, PartEnded
from scheduler_service.domain.leases import ChangedPart, EndedPart, Leased
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.parts import write_part_id
from scheduler_service.domain.replies import Refusal, Reply, Unchanged
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.delivery import Command, Deliver
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.ports.queues import Queues

PAGE_SIZE = 500
FIRST_PAUSE, LONGEST_PAUSE = 100, 5 * SECOND
"""Between two deliveries, in ms."""
Result = TypeVar("Result")


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
        after, is_full = "", True
        while is_full:
            ends = await self._table.ended(after, PAGE_SIZE)
            for ended in ends:
                self.deliver_end(ended)
            is_full = len(ends) == PAGE_SIZE
            after = ends[-1].part_id if ends else after
        after, is_full = "", True
        while is_full:
            changes = await self._table.changed(after, PAGE_SIZE)
            for changed in changes:
                self.deliver_changes(changed)
            is_full = len(changes) == PAGE_SIZE
            after = changes[-1].part_id if changes else after

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
