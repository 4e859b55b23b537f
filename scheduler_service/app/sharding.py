"""How a service of several processes divides its jobs, and what it tells each of its worker processes."""

import time
from collections.abc import Callable, Sequence

from scheduler_service.app.store_opening import MEMORY
from scheduler_service.app.system_jobs import NAMES
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.processes.bulk_offload import BulkOffload
from scheduler_service.hosts.processes.merged_store import MergedStore, ServiceStore
from scheduler_service.hosts.processes.rpc_methods import WorkerConfig
from scheduler_service.hosts.processes.shard import OwnShard, RemoteShard
from scheduler_service.hosts.processes.sharding import ShardOf, make_shard_of
from scheduler_service.hosts.processes.shards import Shards
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.state import OpenStore
from scheduler_service.settings import Loaded, Settings, SettingsError


def check_workers(settings: Settings) -> None:
    """Raises SettingsError where several processes are asked of what has one (SPEC section 16)."""
    workers, store = settings.server.workers, settings.store
    if workers == 1:
        return
    if store.url is not None:
        raise SettingsError(
            f"server.workers = {workers}: the state in Redis has one process; leave store.url out, or "
            "server.workers"
        )
    if store.data == MEMORY:
        raise SettingsError(
            f"server.workers = {workers}: processes meet in files; name a folder in store.data (--data DIR)"
        )
    if settings.database.url == "sqlite://":
        raise SettingsError(
            f"server.workers = {workers}: processes cannot share a history in memory; leave database.url out"
        )


def shard_of(shares: int) -> ShardOf:
    """Where jobs live in a service of so many shares: the system jobs where their functions are."""
    return make_shard_of(shares, NAMES)


def make_merged_store(store: OpenStore, remotes: Sequence[RemoteShard], home: ShardOf) -> ServiceStore:
    """All stores as one; the service's own where there is no other."""
    if not remotes:
        return store
    assert isinstance(store, SqliteStateStore), "settings refuse worker processes over another store"
    return MergedStore(own=store, remotes=remotes, home=home)


def make_jobs(own: OwnShard, remotes: Sequence[RemoteShard], home: ShardOf) -> OwnShard | Shards:
    """All jobs; the service's own share where there is no other."""
    return Shards(shares=(own, *remotes), home=home) if remotes else own


def make_offload(remotes: Sequence[RemoteShard], home: ShardOf) -> BulkOffload | None:
    """The way to offer definitions to other processes; None where there are none."""
    return BulkOffload(others=remotes, home=home) if remotes else None


def worker_configs(
    loaded: Loaded, surroundings: Surroundings, served: str, node: str, clock: Clock
) -> Callable[[int], WorkerConfig]:
    """What a worker process is told when it starts. Its steady line is that of `clock`."""

    def give(share: int) -> WorkerConfig:
        return WorkerConfig(
            share=share,
            settings=loaded.settings.model_dump_json().encode(),
            sources=loaded.sources,
            has_file=loaded.has_file,
            served=served,
            # As it was read once: a file may change, or go, before the process starts again.
            environment=dict(surroundings.environment),
            node=node,
            # By the wall as it is now: what is stored may not have followed a step of it yet.
            skew=round(time.time() * SECOND) - clock.now().steady,
        )

    return give
