"""The stores of all shards as one: the service's own, and those of its worker processes."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from scheduler_service.hosts.processes.fan_out import one_of
from scheduler_service.hosts.processes.merged_catalogue import MergedCatalogue
from scheduler_service.hosts.processes.merged_queues import MergedQueues
from scheduler_service.hosts.processes.remote_shard import RemoteShard
from scheduler_service.hosts.processes.sharding import ShardOf
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.queues import Queues, ShardQueues
from scheduler_service.ports.state import Remembered


class ServiceStore(Protocol):
    """What the service uses of a store outside of turns. All raise StoreError."""

    @property
    def catalogue(self) -> Catalogue:
        """The jobs in lists."""

    @property
    def queues(self) -> Queues:
        """The parts in queues."""

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None."""

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes a destroyed job, its counters and definitions; False: there is none."""

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """The answer kept under an Idempotency-Key since `since` (wall ms), or None."""

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        """Keeps an answer that belongs to no single job."""


class ShardStore(ServiceStore, Protocol):
    """The store of one shard, in this process or another."""

    @property
    def queues(self) -> ShardQueues:
        """The parts in queues."""


class MergedStore:
    """Several stores as one. What belongs to no job is in the service's own."""

    def __init__(self, *, own: ShardStore, remotes: Sequence[RemoteShard], shard_of: ShardOf) -> None:
        self._stores: tuple[ShardStore | RemoteShard, ...] = (own, *remotes)
        self._shard_of = shard_of
        catalogues = [store.catalogue for store in self._stores]
        self.catalogue = MergedCatalogue(catalogues=catalogues, shard_of=shard_of)
        self.queues = MergedQueues(shards=[store.queues for store in self._stores])
        self.recall = own.recall
        self.remember = own.remember

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None. A uid does not name its shard, so all are asked.

        Raises StoreError where none has it and one cannot be asked.
        """
        return await one_of([store.definition(uid, revision) for store in self._stores])

    async def forget(self, job_id: str) -> bool:
        """Removes a destroyed job; False: there is none. Raises StoreError."""
        return await self._stores[self._shard_of(job_id)].forget(job_id)
