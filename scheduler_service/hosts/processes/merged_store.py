"""The stores of all shards as one: the service's own, and those of its worker processes."""

from collections.abc import Sequence
from typing import Protocol

from scheduler_service.hosts.processes.fan_out import one_of
from scheduler_service.hosts.processes.merged_catalogue import MergedCatalogue
from scheduler_service.hosts.processes.merged_queues import MergedQueues
from scheduler_service.hosts.processes.remote_shard import RemoteShard
from scheduler_service.hosts.processes.sharding import ShardOf
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.queues import ShardQueues
from scheduler_service.ports.state import ServiceStore


class ShardStore(ServiceStore, Protocol):
    """The store of one shard, in this process or another."""

    @property
    def queues(self) -> ShardQueues:
        """The parts in queues."""


class MergedStore:
    """Several stores as one. What belongs to no job is in the service's own."""

    def __init__(
        self, *, own: ShardStore, remotes: Sequence[RemoteShard], shard_of: ShardOf, clock: Clock
    ) -> None:
        self._stores: tuple[ShardStore | RemoteShard, ...] = (own, *remotes)
        self._shard_of = shard_of
        catalogues = [store.catalogue for store in self._stores]
        self.catalogue = MergedCatalogue(catalogues=catalogues, shard_of=shard_of)
        self.queues = MergedQueues(shards=[store.queues for store in self._stores], clock=clock)
        self.recall = own.recall
        self.remember = own.remember
        self.remember_first = own.remember_first

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None. A uid does not name its shard, so all are asked.

        Raises StoreError where none has it and one cannot be asked.
        """
        return await one_of([store.definition(uid, revision) for store in self._stores])

    async def forget(self, job_id: str) -> bool:
        """Removes a destroyed job; False: there is none. Raises StoreError."""
        return await self._stores[self._shard_of(job_id)].forget(job_id)
