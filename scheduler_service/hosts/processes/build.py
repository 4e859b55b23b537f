"""Puts the processes of a service together: its stores as one, its jobs as one, its worker processes."""

from collections.abc import Sequence
from typing import cast

import msgspec

from scheduler_service.hosts.processes.bulk_offload import BulkOffload
from scheduler_service.hosts.processes.merged_store import MergedStore, ShardStore
from scheduler_service.hosts.processes.remote_shard import RemoteShard
from scheduler_service.hosts.processes.sharding import ShardOf
from scheduler_service.hosts.processes.shards import OwnShard, Shards
from scheduler_service.hosts.processes.worker_handle import WorkerHandle
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Compile
from scheduler_service.ports.state import OpenStore, ServiceStore


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    """The worker processes of a service by their handles, and its stores as one.

    A service of one process has no worker processes, and its own store is `store`.
    """

    workers: Sequence[WorkerHandle]
    remotes: Sequence[RemoteShard]
    store: ServiceStore
    shard_of: ShardOf
    offload: BulkOffload | None

    def jobs(self, own: OwnShard) -> OwnShard | Shards:
        """The jobs of all shards; `own` is the one of the service's own process."""
        return Shards(shards=(own, *self.remotes), shard_of=self.shard_of) if self.remotes else own


def build_processes(
    *, count: int, store: OpenStore, shard_of: ShardOf, compiler: Compile, clock: Clock
) -> Processes:
    """A service of `count` processes; `store` is that of its own shard. Nothing is started yet.

    With more than one process `store` has the queues of a shard: settings refuse other stores.
    """
    workers = [WorkerHandle(shard=number) for number in range(1, count)]
    remotes = [RemoteShard(worker=worker, compiler=compiler) for worker in workers]
    merged: ServiceStore = store
    if remotes:
        merged = MergedStore(own=cast("ShardStore", store), remotes=remotes, shard_of=shard_of, clock=clock)
    return Processes(
        workers=workers,
        remotes=remotes,
        store=merged,
        shard_of=shard_of,
        offload=BulkOffload(remotes=remotes, shard_of=shard_of) if remotes else None,
    )
