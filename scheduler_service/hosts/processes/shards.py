"""The jobs of a service: one shard in its own process, or several, with each job in the shard of its id."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Protocol, TypeVar
from zlib import crc32

import msgspec

from scheduler_service.domain.replies import Reply
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.host import Dismiss, Host, HostStatus, dismiss_anywhere
from scheduler_service.hosts.processes.remote_shard import RemoteShard, WorkerHandle
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Compile, Definition, Deliver
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import OpenStore, ServiceStore

Result = TypeVar("Result")
ShardOf = Callable[[str], int]
"""The number of the shard in which a job lives."""

_MIX = 0x9E3779B1
_BITS = 0xFFFFFFFF


def make_shard_of(shards: int, pinned: Collection[str] = ()) -> ShardOf:
    """Divides ids evenly among `shards`; those of `pinned` live in shard 0, in the service's own process.

    It follows from the id alone, so that no table of it is needed. The rule never changes: jobs are divided
    by it, and read by later versions.
    """
    first = frozenset(pinned)

    def shard_of(job_id: str) -> int:
        if shards == 1 or job_id in first:
            return 0
        # Ids that differ in little differ in few bits of the sum: the upper bits of a product have them all.
        return ((crc32(job_id.encode("utf-8", "surrogatepass")) * _MIX & _BITS) >> 16) % shards

    return shard_of


class Shard(Protocol):
    """The jobs of a shard, their notifications and their history. All raise StoreError."""

    @property
    def deliver(self) -> Deliver:
        """Takes one turn and returns its reply after its commit."""

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's entry after its latest commit, where it is in memory; else the catalogue has it."""

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, the writes of one shard as one group. Never raises StoreError.

        The jobs belong to the service `owner`; empty: to none.
        """

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn, contexts of qos 0 as well."""

    async def resend(self, name: str) -> bool:
        """Tries a notification at once; False: there is none. `name`: its id and tenant, as a job's key."""

    async def resend_outbox(self) -> int:
        """Tries all notifications in the outbox; returns how many."""

    async def flush(self, job_id: str | None = None) -> None:
        """Returns when the history has all that was recorded so far, of this job or of all."""

    async def status(self) -> HostStatus:
        """How many jobs are in memory, and how many of them run, in all processes that answer."""

    @property
    def missing(self) -> Sequence[str]:
        """What is not ready, as text."""


class ProcessShard(Shard, Protocol):
    """The jobs of one process. All raise StoreError."""

    async def dismiss_here(self, name: str) -> bool:
        """Gives a notification up that is in its memory, or in the store; False: there is none."""


class Jobs(Shard, Protocol):
    """All jobs of a service. All raise StoreError."""

    async def dismiss(self, name: str) -> bool:
        """Gives a notification up; False: there is none, or another node has it.

        One that was lost with its process is given up in the history.
        """


class Shards:
    """Several shards as `Jobs`; `shard_of` has the number of each job's.

    `dismiss_lost` gives up what is pending in the history alone (`Host.dismiss_lost`).
    """

    def __init__(self, *, shards: Sequence[ProcessShard], shard_of: ShardOf, dismiss_lost: Dismiss) -> None:
        self._shards = shards
        self._dismiss_own_lost = dismiss_lost
        self._shard_of = shard_of

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """Takes one turn in the job's shard."""
        return await self._shard(job_id).deliver(job_id, command)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's entry, where it is in this process's memory."""
        return self._shard(job_id).peek(job_id)

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, in all shards at once."""
        positions: dict[int, list[int]] = {}
        for position, definition in enumerate(definitions):
            positions.setdefault(self._shard_of(definition.program.key), []).append(position)
        replies: dict[int, Reply | StoreError] = {}

        async def create(shard: int, some: list[int]) -> None:
            own = [definitions[position] for position in some]
            created = await self._shards[shard].create_all(own, owner)
            replies.update(zip(some, created, strict=True))

        await asyncio.gather(*(create(shard, some) for shard, some in positions.items()))
        return [replies[position] for position in range(len(definitions))]

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn."""
        return await self._shard(job_id).read(job_id)

    async def resend(self, name: str) -> bool:
        """Tries a notification at once: its id does not name its shard, so all are asked."""
        return await self._any(shard.resend(name) for shard in self._shards)

    async def dismiss(self, name: str) -> bool:
        """Gives a notification up, in whichever shard it is or was."""
        return await dismiss_anywhere(name, here=self._dismiss_here, lost=self._dismiss_lost)

    async def _dismiss_here(self, name: str) -> bool:
        return await self._any(shard.dismiss_here(name) for shard in self._shards)

    async def _dismiss_lost(self, name: str) -> bool:
        if missing := self.missing:  # what it left may not be in the history yet
            raise StoreUnavailable(f"not ready: {', '.join(missing)}; ask again in a moment")
        await self.flush()
        return await self._dismiss_own_lost(name)

    async def resend_outbox(self) -> int:
        """Tries the notifications in the outboxes of all shards."""
        return sum(await self._all(shard.resend_outbox() for shard in self._shards))

    async def flush(self, job_id: str | None = None) -> None:
        """Returns when the history has all that all shards recorded so far, or the shard of this job."""
        if job_id is not None:
            await self._shard(job_id).flush()
            return
        await self._all(shard.flush() for shard in self._shards)

    async def status(self) -> HostStatus:
        """The sum over the processes that answer."""
        known = await asyncio.gather(*(shard.status() for shard in self._shards))
        return HostStatus(held=sum(one.held for one in known), running=sum(one.running for one in known))

    @property
    def missing(self) -> list[str]:
        """What is not ready in any shard."""
        return [name for shard in self._shards for name in shard.missing]

    def _shard(self, job_id: str) -> Shard:
        return self._shards[self._shard_of(job_id)]

    async def _all(self, calls: Iterable[Awaitable[Result]]) -> list[Result]:
        """All answers. Raises the least certain of the errors after all have ended."""
        found = await asyncio.gather(*calls, return_exceptions=True)
        errors = [one for one in found if isinstance(one, BaseException)]
        for error in sorted(errors, key=lambda one: not isinstance(one, StoreUncertain)):
            raise error
        return [one for one in found if not isinstance(one, BaseException)]

    async def _any(self, calls: Iterable[Coroutine[Any, Any, bool]]) -> bool:
        """Whether one of them is true, which waits for no other. Raises StoreError as `_all` else."""
        tasks = [asyncio.create_task(call) for call in calls]
        try:
            for next_one in asyncio.as_completed(tasks):
                with contextlib.suppress(StoreError):
                    if await next_one:
                        return True
            return any(await self._all(tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class StoreBesideTurns:
    """The store as the service's own process uses it outside of turns.

    All processes write it; but a job is forgotten by the process that has it (`RowVersions` of SQLite).
    """

    def __init__(self, *, store: ServiceStore, remotes: Sequence[RemoteShard], shard_of: ShardOf) -> None:
        self._processes: Sequence[ServiceStore | RemoteShard] = (store, *remotes)
        self._shard_of = shard_of
        self.catalogue = store.catalogue
        self.queues = store.queues
        self.definition = store.definition
        self.recall = store.recall
        self.remember = store.remember
        self.remember_first = store.remember_first

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes a destroyed job; False: there is none. Raises StoreError."""
        return self._processes[self._shard_of(job_id)].forget(job_id)


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    """The worker processes of a service by their handles, and its store; one process has none of them."""

    workers: Sequence[WorkerHandle]
    remotes: Sequence[RemoteShard]
    store: ServiceStore
    shard_of: ShardOf

    def jobs(self, own: Host) -> Host | Shards:
        """The jobs of all shards; `own` has that of the service's own process."""
        if not self.remotes:
            return own
        shards: Sequence[ProcessShard] = (own, *self.remotes)
        return Shards(shards=shards, shard_of=self.shard_of, dismiss_lost=own.dismiss_lost)


def build_processes(*, count: int, store: OpenStore, shard_of: ShardOf, compiler: Compile) -> Processes:
    """A service of `count` processes. Nothing is started yet."""
    workers = [WorkerHandle(shard=number) for number in range(1, count)]
    remotes = [
        RemoteShard(worker=worker, compiler=compiler, definition=store.definition) for worker in workers
    ]
    return Processes(
        workers=workers,
        remotes=remotes,
        store=StoreBesideTurns(store=store, remotes=remotes, shard_of=shard_of) if remotes else store,
        shard_of=shard_of,
    )
