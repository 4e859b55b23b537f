"""Puts the processes of a service together: its jobs as one, and its worker processes."""

from collections.abc import Awaitable, Sequence

import msgspec

from scheduler_service.hosts.processes.bulk_offload import BulkOffload
from scheduler_service.hosts.processes.remote_shard import RemoteShard
from scheduler_service.hosts.processes.sharding import ShardOf
from scheduler_service.hosts.processes.shards import OwnShard, Shards
from scheduler_service.hosts.processes.worker_handle import WorkerHandle
from scheduler_service.ports.delivery import Compile
from scheduler_service.ports.state import OpenStore, ServiceStore


class SharedStore:
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
    offload: BulkOffload | None

    def jobs(self, own: OwnShard) -> OwnShard | Shards:
        """The jobs of all shards; `own` is the one of the service's own process."""
        return Shards(shards=(own, *self.remotes), shard_of=self.shard_of) if self.remotes else own


def build_processes(*, count: int, store: OpenStore, shard_of: ShardOf, compiler: Compile) -> Processes:
    """A service of `count` processes. Nothing is started yet."""
    workers = [WorkerHandle(shard=number) for number in range(1, count)]
    remotes = [
        RemoteShard(worker=worker, compiler=compiler, definition=store.definition) for worker in workers
    ]
    return Processes(
        workers=workers,
        remotes=remotes,
        store=SharedStore(store=store, remotes=remotes, shard_of=shard_of) if remotes else store,
        shard_of=shard_of,
        offload=BulkOffload(remotes=remotes, shard_of=shard_of) if remotes else None,
    )
