"""What the host of a process is on every placement: its jobs, its effects, how far its start or stop is."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from scheduler_service.domain.replies import Reply
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.background_tasks import Tasks
from scheduler_service.hosts.creation import Creation
from scheduler_service.hosts.effect_handlers import EffectHandlers
from scheduler_service.hosts.host_dependencies import HostParts
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Definition, Deliver
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain

Result = TypeVar("Result")


Dismiss = Callable[[str], Awaitable[bool]]


async def dismiss_anywhere(name: str, *, here: Dismiss, lost: Dismiss, seconds: float = 2) -> bool:
    """Gives a notification up that is `here`, or that is `lost`; False: neither. Raises StoreError.

    Raises StoreUncertain where the history, which has the lost ones, takes longer than `seconds`.
    """
    if await here(name):
        return True
    try:
        async with asyncio.timeout(seconds):
            is_lost = await lost(name)
    except TimeoutError as error:
        raise StoreUncertain(f"the history did not answer within {seconds:g} s", is_public=True) from error
    if is_lost:
        await here(name)  # its turn may have ended in between
    return is_lost


class HostStatus(msgspec.Struct, frozen=True):
    """How many jobs a process holds in memory, and how many of them run.

    `pid` 0: it does not answer. `started_at` is the start of the process (wall ms), `loop_held` for how long
    its loop was held in the last minute (ms).
    """

    held: int = 0
    running: int = 0
    pid: int = 0
    started_at: int = 0
    loop_held: int = 0


class Host:
    """Takes turns on jobs (`ports.Deliver`); `tasks` are turns that go on to their end.

    It is the shard of its process (`hosts.processes.shards.ProcessShard`), or all `Jobs`; a node's has the
    jobs of its cluster.
    """

    _is_ready = False
    _is_draining = False

    def __init__(
        self, parts: HostParts, *, jobs: JobCache, creation: Creation, effects: EffectHandlers, tasks: Tasks
    ) -> None:
        self._history = parts.history
        self._clock = parts.clock
        self._log = parts.log
        self._jobs = jobs
        self._creation = creation
        self._tasks = tasks
        self.effects = effects
        self.deliver: Deliver = self
        self.notifications = effects.notifications
        self.resend = effects.notifications.resend
        self.dismiss_here = effects.notifications.dismiss
        self.resend_outbox = effects.notifications.resend_outbox

    async def __call__(self, job_id: str, command: Command) -> Reply:
        """Takes one turn and returns its reply after its commit. Raises StoreError."""
        raise NotImplementedError

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """As `hosts.processes.shards.Shard.create_all`; to its end also if the caller is cancelled."""
        return await self._to_its_end(self._creation.create_all(definitions, owner))

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's entry after its latest commit, where it is in memory; else the catalogue has it."""
        return None

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        raise NotImplementedError

    async def dismiss(self, name: str) -> bool:
        """As `hosts.processes.shards.Jobs.dismiss`."""
        return await dismiss_anywhere(name, here=self.dismiss_here, lost=self.dismiss_lost)

    async def dismiss_lost(self, name: str) -> bool:
        """Gives up what is pending in the history alone, for who has asked each process that has jobs here.

        False: there is none, or another node has it in memory. Raises StoreError.
        """
        if not self._is_ready:  # what an earlier process left may not be in the history yet
            raise StoreUnavailable("the jobs of this process are not ready; ask again in a moment")
        return await self._history.dismiss_lost(name, await self.other_holders(), self._clock.now().wall)

    async def other_holders(self) -> frozenset[str]:
        """Who may have a notification, beside those that are asked (`write_holder`). Raises StoreError."""
        return frozenset()

    async def flush(self, job_id: str | None = None) -> None:
        """Returns when the history has all that was recorded so far. Raises StoreUnavailable."""
        await self._history.flush()

    async def status(self) -> HostStatus:
        """The figures of this process."""
        return HostStatus(held=self.jobs_held, running=self.running)

    @property
    def missing(self) -> Sequence[str]:
        """The host, until it has recovered."""
        return [] if self._is_ready else ["host"]

    @property
    def is_ready(self) -> bool:
        """Whether the host has recovered and takes firings."""
        return self._is_ready

    @property
    def is_draining(self) -> bool:
        """Whether the host is stopping."""
        return self._is_draining

    @property
    def jobs_held(self) -> int:
        """How many jobs are in memory."""
        return len(self._jobs)

    @property
    def running(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return self._jobs.live

    @property
    def open_bytes(self) -> int:
        """How much open executions keep in memory (`hosts.job_cache.OpenBytes`)."""
        return self._jobs.open_bytes.total

    @property
    def tasks_running(self) -> int:
        """How many turns are under way that go on to their end."""
        return len(self._tasks)

    async def _to_its_end(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` gives; it goes on when nobody waits for it any more."""
        result: Result = await asyncio.shield(self._tasks.start(work))
        return result
