"""How a service of several processes divides its jobs, and the configuration of its worker processes."""

import time
from collections.abc import Callable

from scheduler_service.app.alert_jobs import headers_of, urls_of
from scheduler_service.app.store_opening import MEMORY
from scheduler_service.app.system_jobs import NAMES
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.processes.rpc_methods import WorkerConfig
from scheduler_service.hosts.processes.sharding import ShardOf, make_shard_of
from scheduler_service.ports.clock import Clock
from scheduler_service.settings import Loaded, Settings, SettingsError


def check_workers(settings: Settings) -> None:
    """Raises SettingsError where the store allows one process only (SPEC section 16)."""
    workers, store = settings.server.workers, settings.store
    if workers == 1:
        return
    if store.data == MEMORY:
        raise SettingsError(
            f"server.workers = {workers}: processes meet in files; name a folder in store.data (--data DIR)"
        )
    if settings.database.url == "sqlite://":
        raise SettingsError(
            f"server.workers = {workers}: processes cannot share a history in memory; leave database.url out"
        )


def shard_of(shards: int) -> ShardOf:
    """The shard of each job in a service of so many: the system jobs run where their functions are."""
    return make_shard_of(shards, NAMES)


def worker_configs(
    loaded: Loaded, surroundings: Surroundings, served: str, node: str, clock: Clock
) -> Callable[[int], WorkerConfig]:
    """Makes the configuration for a start of a worker process. Its steady time is that of `clock`."""

    def config_for(shard: int) -> WorkerConfig:
        return WorkerConfig(
            shard=shard,
            settings=loaded.settings.model_dump_json().encode(),
            sources=loaded.sources,
            has_file=loaded.has_file,
            served=served,
            # As it was read once: a file may change or be removed before the process starts again.
            environment=dict(surroundings.environment),
            # Settings as JSON have no values of headers, and no queries of addresses.
            secret_headers=headers_of(loaded.settings),
            secret_urls=urls_of(loaded.settings),
            node=node,
            # By the wall clock as it is now: the stored skew may not include its latest step yet.
            skew=round(time.time() * SECOND) - clock.now().steady,
        )

    return config_for
