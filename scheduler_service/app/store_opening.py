"""Opens the store that settings name, and watches it: SQLite in the data folder, or a Redis database."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from scheduler_service import how_to_install
from scheduler_service.app.data_folder import (
    check_beginning,
    history_address,
    keep_private,
    name_misplaced,
    tell_damaged_page,
    tell_trouble,
)
from scheduler_service.hosts.processes.sharding import ShardOf
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.contexts.address import read_address
from scheduler_service.persistence.contexts.apart_store import WholeStore
from scheduler_service.persistence.sqlite.folder import FolderLock
from scheduler_service.persistence.sqlite.resharding import ReshardPlan, reshard
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings, SettingsError

MEMORY = ":memory:"


class StoreWatch:
    """Says what becomes of an open store, and remembers it."""

    def __init__(self, *, log: Log) -> None:
        self._log = log
        self._tell_files = tell_trouble(log)
        self._is_away = False
        self._is_unasked_told = False
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def missing(self) -> Sequence[str]:
        """What readiness lacks."""
        return ["store"] if self._is_away or self.is_lost else []

    @property
    def is_lost(self) -> bool:
        """Whether this process may not write any more."""
        return self._lost.done()

    async def breaks(self) -> str:
        """Returns, in words, when the service cannot go on."""
        return await asyncio.shield(self._lost)

    def lose(self, message: str) -> None:
        """This process may not write any more."""
        self._log("store_lost", error=message)
        if not self._lost.done():
            self._lost.set_result(message)

    def note_trouble(self, trouble: str | None) -> None:
        """The store cannot be reached; None: it can be again."""
        self._is_away = trouble is not None
        if trouble is None:
            self._log("store_reached_again")
        else:
            self._log("store_unreachable", error=trouble)

    def note_files(self, trouble: str | None) -> None:
        """Its files cannot be written; None: they can be again."""
        self._is_away = trouble is not None
        self._tell_files(trouble)

    def warn(self, message: str) -> None:
        """The store may lose what it has confirmed."""
        self._log("store_unsafe", warning=message)

    def note_unasked(self) -> None:
        """The store answered what nobody asked; said once, for what does so may do it all the time."""
        if not self._is_unasked_told:
            self._is_unasked_told = True
            self._log("store_answered_unasked")


def data_folder(settings: Settings) -> Path | None:
    """Where files lie; None: nowhere."""
    return None if settings.store.data == MEMORY else Path(settings.store.data)


async def open_store(
    settings: Settings,
    *,
    watch: StoreWatch,
    faults: FaultPoints | None,
    shard_of: ShardOf,
    log: Log,
    begins_anew: bool = False,
) -> WholeStore:
    """The store, which this process alone writes to from now on: the whole of it, or its first shard.

    Files that were divided among another number of processes are divided anew before, and those that other
    users could read are for this one alone. With `begins_anew` it may have no jobs though its history has
    executions. Raises StoreError, SettingsError.
    """
    folder = data_folder(settings)
    if settings.store.url is not None:
        return await _open_redis(settings, settings.store.url, folder, watch, faults, log)
    opening = partial(
        SqliteStateStore.open,
        folder=folder,
        durability=settings.store.durability,
        node_id=settings.node.id or "",
        faults=faults,
        on_damaged_page=tell_damaged_page(log),
        on_trouble=watch.note_files,
    )
    if folder is None:
        return await opening()
    shards = settings.server.workers
    lock = await asyncio.to_thread(_claim, folder, log)
    try:
        if not begins_anew:
            await asyncio.to_thread(check_beginning, folder, history_address(settings, folder))
        plan = ReshardPlan(
            folder=folder,
            shards=shards,
            shard_of=shard_of,
            durability=settings.store.durability,
            log=log,
            on_damaged_page=tell_damaged_page(log),
        )
        await asyncio.to_thread(reshard, plan)
        return await opening(shards=shards, lock=lock)
    except BaseException:
        lock.release()
        raise


def _claim(folder: Path, log: Log) -> FolderLock:
    """The lock of a folder, whose files are then for this user alone."""
    lock = FolderLock.claim(folder)
    keep_private(folder, log)
    name_misplaced(folder, log)
    return lock


async def _open_redis(
    settings: Settings,
    url: str,
    folder: Path | None,
    watch: StoreWatch,
    faults: FaultPoints | None,
    log: Log,
) -> WholeStore:
    try:
        from scheduler_service.persistence.redis.store import Hooks, RedisStateStore
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"store.url needs the package {error.name}; {how_to_install('service', 'redis')}"
        ) from error
    # The history lies in the folder all the same.
    release = _keep_nothing if folder is None else (await asyncio.to_thread(_claim, folder, log)).release
    try:
        return await RedisStateStore.open(
            address=read_address(url),
            durability=settings.store.durability,
            node_id=settings.node.id or "",
            hooks=Hooks(
                on_lost=watch.lose,
                on_trouble=watch.note_trouble,
                on_doubt=watch.warn,
                on_unasked=watch.note_unasked,
            ),
            faults=faults,
            release=release,
        )
    except BaseException:
        release()
        raise


def _keep_nothing() -> None:
    return
