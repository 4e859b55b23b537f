"""Several stores in memory, each with a shard of the jobs, merged into one."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Self, TypeVar
from zlib import crc32

import msgspec

from scheduler_service.domain.effects import (
    AcceptChanges,
    PublishParts,
    QueueWrite,
    ReconfigureParts,
    WithdrawParts,
)
from scheduler_service.domain.leases import (
    ChangedPart,
    Claim,
    EndedPart,
    Freeing,
    HeldPart,
    Leased,
    QueueFigures,
    QueueQuery,
    Renewed,
    Sight,
    Swept,
)
from scheduler_service.domain.parts import PartEnd, PartName
from scheduler_service.hosts.processes.merged_catalogue import MergedCatalogue
from scheduler_service.hosts.processes.merged_queues import MergedQueues
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.queues import ShardQueues
from scheduler_service.ports.state import Commit


class MemoryShards:
    """What the suites of a store ask of one: commits go where the job, or its parts, live.

    The parts of an execution live together; `place` says where, when it is given.
    """

    def __init__(self, stores: list[SqliteStateStore]) -> None:
        self.stores = stores
        self.calls = [Calls(store.queues) for store in stores]
        self.queues = MergedQueues(shards=self.calls)
        self.catalogue = MergedCatalogue(
            catalogues=[store.catalogue for store in stores], shard_of=self.shard_of
        )
        self.pinned: dict[str, int] = {}
        self.place: Callable[[int], int] = lambda execution: execution % len(stores)

    @classmethod
    async def open(cls, count: int = 3) -> Self:
        return cls([await SqliteStateStore.open(folder=None) for _ in range(count)])

    def shard_of(self, job_id: str) -> int:
        return self.pinned.get(job_id, crc32(job_id.encode()) % len(self.stores))

    async def commit(self, commit: Commit) -> None:
        """One turn; the parts that it brings are committed beside it, each in the shard of its execution."""
        if not commit.queued:
            await self.stores[self.shard_of(commit.entry.job_id)].commit(commit)
            return
        for number, store in enumerate(self.stores):
            await store.commit(msgspec.structs.replace(commit, queued=tuple(self._of(commit, number))))

    def _of(self, commit: Commit, number: int) -> list[QueueWrite]:
        return [write for write in commit.queued if self.place(_execution(write)) == number]

    async def close(self) -> None:
        await asyncio.gather(*(store.close() for store in self.stores))


def _execution(write: QueueWrite) -> int:
    match write:
        case PublishParts(parts=parts):
            return parts[0].name.execute_number
        case ReconfigureParts(name=PartName(execute_number=number)) | WithdrawParts(execute_number=number):
            return number
        case AcceptChanges(name=PartName(execute_number=number)):
            return number


Said = TypeVar("Said")
Hooks = dict[str, Callable[[], Awaitable[object]]]


class Calls:
    """The queues of a shard, and what was asked of them; `before` and `after` a call something may happen."""

    def __init__(self, queues: ShardQueues) -> None:
        self._queues = queues
        self.made: list[str] = []
        self.before: Hooks = {}
        self.after: Hooks = {}

    async def look(self, claim: Claim) -> Sight:
        return await self._make("look", partial(self._queues.look, claim))

    async def claim(self, claim: Claim) -> tuple[Leased, ...]:
        return await self._make("claim", partial(self._queues.claim, claim))

    async def renew(self, lease: str, now: int) -> Renewed | None:
        return await self._make("renew", partial(self._queues.renew, lease, now))

    async def complete(self, lease: str, end: PartEnd, now: int) -> EndedPart | bool:
        return await self._make("complete", partial(self._queues.complete, lease, end, now))

    async def free(self, freeing: Freeing) -> Swept | None:
        return await self._make("free", partial(self._queues.free, freeing))

    async def sweep(self, now: int) -> Swept:
        return await self._make("sweep", partial(self._queues.sweep, now))

    async def extend(self, now: int) -> None:
        return await self._make("extend", partial(self._queues.extend, now))

    async def hold(self, tenant: str, queue: str, now: int) -> None:
        return await self._make("hold", partial(self._queues.hold, tenant, queue, now))

    async def go_on(self, tenant: str, queue: str, since: int, now: int) -> None:
        return await self._make("go_on", partial(self._queues.go_on, tenant, queue, since, now))

    async def drop(self, part_id: str) -> None:
        return await self._make("drop", partial(self._queues.drop, part_id))

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        return await self._make("ended", partial(self._queues.ended, after, limit))

    async def changed(self, after: str, limit: int) -> list[ChangedPart]:
        return await self._make("changed", partial(self._queues.changed, after, limit))

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        return await self._make("figures", partial(self._queues.figures, query))

    async def held(self, query: QueueQuery) -> list[HeldPart]:
        return await self._make("held", partial(self._queues.held, query))

    async def _make(self, name: str, call: Callable[[], Awaitable[Said]]) -> Said:
        self.made.append(name)
        await self._hook(self.before, name)
        answer = await call()
        await self._hook(self.after, name)
        return answer

    @staticmethod
    async def _hook(hooks: Hooks, name: str) -> None:
        hook = hooks.pop(name, None)
        if hook is not None:
            await hook()
