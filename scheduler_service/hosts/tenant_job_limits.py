"""How many jobs and waiting executions a tenant may have: judged where callers and declarations come in.

Nothing here is on the way of an execution (docs/decisions/0109).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from weakref import WeakValueDictionary

from scheduler_service.domain.execution import WAITING, JobState
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.replies import (
    ReachedLimit,
    Refusal,
    RefusalCode,
    Reply,
    Started,
    StartedMany,
    Taken,
)
from scheduler_service.domain.turn_events import Backfilled, Created, Destroyed, Triggered
from scheduler_service.engine.job_summary import summarize
from scheduler_service.hosts.processes.shards import Jobs
from scheduler_service.ports.catalogue import JOBS, WAITS, Catalogue
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered

AGAIN_MS: Mapping[str, int] = {JOBS: MINUTE, WAITS: 10 * SECOND}
AGAIN_MOST_MS = 10 * MINUTE
"""When to ask again: nobody knows when there is room, so after as long as there was none, within these."""
COUNT_AGAIN_MS, COUNT_LEAST_MS = 5 * SECOND, 250
"""A count is at most so old, as other nodes add to it; beside a limit it is renewed so often."""
NEAR = 0.9
LimitOf = Callable[[str, str], int]
"""The limit of this name that a tenant has; 0: none."""
Recall = Callable[[str, str, int], Awaitable[Remembered | None]]
"""`JobStore.recall`: a request that is repeated under its key has its answer, whatever there is room for."""
Tell = Callable[[str, str, int], None]
"""Is told the name, the tenant and the value of a limit that was reached."""


class TenantUse:
    """What one tenant has: as it was counted last, and what came since through this process."""

    def __init__(self, *, tenant: str, catalogue: Catalogue, clock: Clock) -> None:
        self._tenant = tenant
        self._catalogue = catalogue
        self._clock = clock
        self._known = {JOBS: 0, WAITS: 0}
        self._added = {JOBS: 0, WAITS: 0}
        self._reserved = {JOBS: 0, WAITS: 0}
        self._counted_at: int | None = None
        self._had_room_at = dict.fromkeys((JOBS, WAITS), clock.now().steady)
        self._counting = asyncio.Lock()
        self._settled = asyncio.Event()

    def of(self, name: str) -> int:
        """How many there are, with those that are about to be."""
        return self._known[name] + self._added[name] + self._reserved[name]

    async def find_room(self, name: str, limit: int, more: int) -> int:
        """How many may be added, for who asks whether `more` fit; it can be less than 0.

        What is about to be may turn out to be nothing new, and what has been added since the count may be
        counted twice: where `more` do not fit, that is waited for, and counted. Raises StoreUnavailable.
        """
        await self._renew(name, limit, more)
        while self.of(name) + more > limit and (self._reserved[name] or self._added[name]):
            if self._reserved[name]:
                await self._settled.wait()
            else:
                self.forget()
                await self._renew(name, limit, more)
        room = limit - self.of(name)
        if room > 0:
            self._had_room_at[name] = self._clock.now().steady
        return room

    def again(self, name: str) -> int:
        """In how many ms to ask again where there is no room."""
        since = self._clock.now().steady - self._had_room_at[name]
        return min(max(since, AGAIN_MS[name]), AGAIN_MOST_MS)

    async def _renew(self, name: str, limit: int, more: int) -> None:
        """Counts anew where that is due."""
        pause = COUNT_LEAST_MS if self.of(name) + more > limit * NEAR else COUNT_AGAIN_MS
        async with self._counting:
            now = self._clock.now()
            if self._counted_at is not None and now.steady - self._counted_at < pause:
                return
            if self._counted_at is None or now.steady - self._counted_at > AGAIN_MOST_MS:
                self._had_room_at = dict.fromkeys(self._had_room_at, now.steady)  # perhaps just before
            before = dict(self._added)
            self._known = (await self._catalogue.counts(now, tenant=self._tenant)).used
            for one, number in before.items():
                self._added[one] -= number
            self._counted_at = now.steady

    def forget(self) -> None:
        """Something has gone: the next one counts anew."""
        self._counted_at = None

    def reserve(self, name: str, number: int) -> None:
        """So many are about to be."""
        self._reserved[name] += number

    def settle(self, name: str, number: int, added: int) -> None:
        """Of `number` that were reserved so many came to be."""
        self._reserved[name] -= number
        self._added[name] += added
        if added < number or not self._reserved[name]:  # else whoever waits finds no more room than before
            self._settled.set()
            self._settled = asyncio.Event()


class LimitedJobs:
    """`Jobs` in front of all jobs, for callers and declarations: what is beyond a limit is refused.

    A count is renewed every few seconds, beside a limit every 250 ms; between them what comes through this
    process is added. So one process is exact, and of several nodes each may exceed a limit by what the others
    let in within that time.
    """

    def __init__(
        self,
        jobs: Jobs,
        *,
        catalogue: Catalogue,
        recall: Recall,
        clock: Clock,
        limit_of: LimitOf,
        tell: Tell,
    ) -> None:
        self._jobs = jobs
        self._catalogue = catalogue
        self._recall = recall
        self._clock = clock
        self._limit_of = limit_of
        self._tell = tell
        self._uses: dict[str, TenantUse] = {}
        self._beginning: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.peek, self.read, self.flush, self.status = jobs.peek, jobs.read, jobs.flush, jobs.status
        self.resend, self.dismiss, self.resend_outbox = jobs.resend, jobs.dismiss, jobs.resend_outbox

    @property
    def missing(self) -> Sequence[str]:
        """As of the jobs behind it."""
        return self._jobs.missing

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """Takes one turn, or refuses what is beyond a limit of the job's tenant. Raises StoreError."""
        event = command.event
        tenant = read_job_key(job_id)[0]
        if isinstance(event, Destroyed) and tenant in self._uses:
            return await self._destroy(self._uses[tenant], job_id, command)
        if isinstance(event, Created) and command.definition is not None:
            if not command.definition.program.system and self._limit_of(JOBS, tenant):
                return await self._create(tenant, job_id, command)
        elif isinstance(event, (Triggered, Backfilled)) and self._limit_of(WAITS, tenant):
            return await self._trigger(tenant, job_id, command, event)
        return await self._jobs.deliver(job_id, command)

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each that fits, in order; refuses others. Never raises StoreError."""
        if not definitions:
            return []
        tenant = read_job_key(definitions[0].program.key)[0]
        limit = self._limit_of(JOBS, tenant)
        if not limit:
            return await self._jobs.create_all(definitions, owner)
        use, there = self._use(tenant), set[str]()
        try:
            if len(definitions) > await use.find_room(JOBS, limit, len(definitions)):
                there = await self._find_living(definitions)
                await use.find_room(JOBS, limit, len({one.program.key for one in definitions} - there))
        except StoreError as error:
            return [error] * len(definitions)
        taken = _choose(definitions, there, limit - use.of(JOBS))
        number = sum(taken)
        use.reserve(JOBS, number)
        replies: list[Reply | StoreError] = []
        added = number
        try:
            some = [definition for definition, fits in zip(definitions, taken, strict=True) if fits]
            replies = list(await self._jobs.create_all(some, owner))
            added = sum(isinstance(reply, (Taken, StoreError)) for reply in replies)
        finally:
            use.settle(JOBS, number, added)
        rest = iter(replies)
        return [next(rest) if fits else self._refuse(JOBS, tenant, limit) for fits in taken]

    async def _find_living(self, definitions: Sequence[Definition]) -> set[str]:
        """The keys of those that exist."""
        known = await self._catalogue.some([one.program.key for one in definitions])
        return {key for key, entry in known.items() if entry.state is not JobState.DESTROYED}

    async def _destroy(self, use: TenantUse, job_id: str, command: Command) -> Reply:
        """What is counted meanwhile may have the job still."""
        use.forget()
        try:
            return await self._jobs.deliver(job_id, command)
        finally:
            use.forget()

    async def _create(self, tenant: str, job_id: str, command: Command) -> Reply:
        limit, use = self._limit_of(JOBS, tenant), self._use(tenant)
        if await use.find_room(JOBS, limit, 1) < 1:
            entry = await self._catalogue.get(job_id)
            is_new = entry is None or entry.state is JobState.DESTROYED
            if is_new and not await self._is_known(command):
                return self._refuse(JOBS, tenant, limit)
        return await self._take(use, JOBS, job_id, command, 1, lambda reply: isinstance(reply, Taken))

    async def _trigger(
        self, tenant: str, job_id: str, command: Command, event: Triggered | Backfilled
    ) -> Reply:
        """One that begins at once waits for nobody, and is none of those that wait.

        Where there is no room, those of one job come one by one: only the first of them can begin at once.
        """
        limit, use = self._limit_of(WAITS, tenant), self._use(tenant)
        number = len(event.moments) if isinstance(event, Backfilled) else 1
        room = await use.find_room(WAITS, limit, number)
        if room >= number:
            return await self._take(use, WAITS, job_id, command, number, _waits)
        async with self._beginning.setdefault(job_id, asyncio.Lock()):
            if await self._would_wait(job_id, event) and not await self._is_known(command):
                return self._refuse(WAITS, tenant, limit, number)
            return await self._take(use, WAITS, job_id, command, number, _waits)

    async def _is_known(self, command: Command) -> bool:
        """Whether it has been answered before."""
        asked = command.remembered
        return asked is not None and await self._recall(asked.scope, asked.key, asked.since) is not None

    async def _would_wait(self, job_id: str, event: Triggered | Backfilled) -> bool:
        if isinstance(event, Backfilled):
            return True
        if event.planned_at is not None and event.planned_at > self._clock.now().wall:
            return True
        job = await self._jobs.read(job_id)
        if job is None or job.document is None:
            return False
        program, summary = job.programs[job.document.head.revision], summarize(job)
        is_busy = summary.live + summary.waiting >= program.max_concurrency
        return program.surroundings.hold_triggered or (is_busy and program.overlap == "queue")

    async def _take(
        self,
        use: TenantUse,
        name: str,
        job_id: str,
        command: Command,
        number: int,
        counts: Callable[[Reply], bool],
    ) -> Reply:
        use.reserve(name, number)
        is_added = True  # of what is cut off or uncertain, until it is counted
        try:
            reply = await self._jobs.deliver(job_id, command)
            is_added = counts(reply)
        finally:
            use.settle(name, number, number if is_added else 0)
        return reply

    def _refuse(self, name: str, tenant: str, limit: int, number: int = 1) -> Refusal:
        """Of `number` that are more than the limit, none can ever be taken together."""
        self._tell(name, tenant, limit)
        use, limits = self._use(tenant), f"limits.{name} allows {limit:,}"
        things = "jobs" if name == JOBS else "executions that wait"
        remedy = "destroy some" if name == JOBS else "ask again when some have begun"
        if number > 1:
            remedy = f"of these {number:,} fit {max(limit - use.of(name), 0):,} now; ask for a shorter range"
        return Refusal(
            RefusalCode.LIMIT,
            f"the tenant {tenant!r} has {use.of(name):,} {things}, and {limits}; {remedy}",
            limit=ReachedLimit(name, limit, use.again(name) if number <= limit else 0),
        )

    def _use(self, tenant: str) -> TenantUse:
        use = self._uses.get(tenant)
        if use is None:
            use = TenantUse(tenant=tenant, catalogue=self._catalogue, clock=self._clock)
            self._uses[tenant] = use
        return use


def _choose(definitions: Sequence[Definition], there: set[str], room: int) -> list[bool]:
    """Which of them may be created: those that are `there`, and others while there is `room`."""
    if len(definitions) <= room:
        return [True] * len(definitions)
    chosen: list[bool] = []
    for definition in definitions:
        key = definition.program.key
        if key not in there and room > 0:
            room -= 1
            there.add(key)
        chosen.append(key in there)
    return chosen


def _waits(reply: Reply) -> bool:
    return isinstance(reply, StartedMany) or (isinstance(reply, Started) and reply.state in WAITING)
