"""Opens the store that settings name, and that of the contexts of qos 1; divides it among processes."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from scheduler_service import how_to_install
from scheduler_service.app.data_folder import (
    check_beginning,
    check_history,
    check_new_database,
    check_unused,
    history_address,
    keep_private,
    name_misplaced,
    note_place,
    tell_damaged_page,
    tell_trouble,
)
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.processes.rpc_methods import WorkerConfig
from scheduler_service.hosts.processes.shards import ShardOf, make_shard_of
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.contexts.external_contexts import (
    ApartStore,
    ContextKeeper,
    ListedContexts,
    WholeStore,
)
from scheduler_service.persistence.contexts.redis_address import read_address
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.job_store.database import OnTrouble
from scheduler_service.persistence.sqlite.folder_lock import FolderLock, await_workers
from scheduler_service.persistence.sqlite.shard_merge import gather
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.log import Log
from scheduler_service.settings import LoadedSettings, Settings, SettingsError
from scheduler_service.settings.alert_settings import WHOLE
from scheduler_service.system_jobs.system_job_definitions import NAMES
from scheduler_service.telemetry.log_summaries import Outage

MEMORY = ":memory:"
IsOwn = Callable[[str], bool]
"""Whether this process has a job."""
EXIT_CODE = 3
"""That of a start that is refused."""
IN_THE_ROW = (None, "sql")
SWEEP_AFTER_SECONDS = 30.0
"""Until then the contexts that a crash has left stay: what it has interrupted is resumed first."""


class StoreWatch:
    """Says what becomes of an open store, and remembers it."""

    def __init__(self, *, log: Log, end: Callable[[int], object] = os._exit) -> None:
        """`end` ends the process at once, with an exit code."""
        self.log = log
        self._end = end
        self._tell = tell_trouble(log)
        self._is_away = False

    @property
    def missing(self) -> Sequence[str]:
        """What readiness lacks."""
        return ["store"] if self._is_away else []

    def note_trouble(self, trouble: str | None) -> None:
        """It cannot be written; None: it can be again."""
        self._is_away = trouble is not None
        self._tell(trouble)

    def note_taken(self) -> None:
        """Another service has the jobs: what this one would do from now on would be done twice."""
        self._is_away = True
        self.log("store_taken")
        self._end(EXIT_CODE)


def data_folder(settings: Settings) -> Path | None:
    """Where files lie; None: nowhere."""
    return None if settings.store.data == MEMORY else Path(settings.store.data)


async def open_store(
    settings: Settings,
    *,
    watch: StoreWatch,
    faults: FaultPoints | None,
    job_shard: ShardOf,
    begins_anew: bool = False,
) -> WholeStore:
    """The store, of which this process has the jobs of `job_shard` 0; no other service uses it from now on.

    Contexts are where the settings want them.

    Files among which an earlier version has divided the jobs are brought together before, and those that
    other users could read are for this one alone. With `begins_anew` it may have no jobs though its history
    has executions. Raises StoreError.
    """
    folder, log = data_folder(settings), watch.log

    def is_own(job_id: str) -> bool:
        return job_shard(job_id) == 0

    opening = partial(
        open_rows,
        settings,
        node_id=settings.node.id or "",
        owns=is_own,
        on_trouble=watch.note_trouble,
        on_taken=watch.note_taken,
        begins_anew=begins_anew,
        log=log,
        faults=faults,
    )
    if folder is None:
        return await keep_contexts(settings, await opening(None), log=log, is_own=is_own, faults=faults)
    lock = await asyncio.to_thread(_claim, folder, log)
    try:
        if settings.store.url is not None:
            check_unused(folder)
        elif not begins_anew:
            await asyncio.to_thread(check_beginning, folder, history_address(settings, folder))
        await asyncio.to_thread(await_workers, folder)
        await asyncio.to_thread(gather, folder, log=log, on_damaged_page=tell_damaged_page(log))
        rows = await opening(lock)
        # Not before: what was never opened has no jobs.
        note_place(folder, is_elsewhere=settings.store.url is not None)
    except BaseException:
        lock.release()
        raise
    return await keep_contexts(settings, rows, log=log, is_own=is_own, faults=faults)


async def open_rows(
    settings: Settings,
    lock: FolderLock | None,
    *,
    node_id: str,
    owns: IsOwn,
    on_trouble: OnTrouble,
    log: Log,
    on_taken: Callable[[], None] = lambda: None,
    is_first: bool = True,
    begins_anew: bool = False,
    faults: FaultPoints | None = None,
) -> WholeStore:
    """The rows of the jobs that a process `owns`, in the folder or in the database of `store.url`.

    It releases `lock` when it is closed. `is_first`: of the processes of a service. `begins_anew`: a database
    may have no jobs though the history has executions. Raises StoreError.
    """
    if settings.store.url is None:
        return await SqliteStateStore.open(
            folder=data_folder(settings),
            durability=settings.store.durability,
            node_id=node_id,
            faults=faults,
            lock=lock,
            owns=owns,
            on_damaged_page=tell_damaged_page(log),
            on_trouble=on_trouble,
        )
    from scheduler_service.persistence.job_store.state_store import ServerStateStore  # few starts need it

    return await ServerStateStore.open(
        url=settings.store.url,
        node_id=node_id,
        owns=owns,
        is_first=is_first,
        faults=faults,
        on_trouble=on_trouble,
        on_taken=on_taken,
        on_new=lambda: None if begins_anew else check_new_database(settings),
        on_close=None if lock is None else lock.release,
    )


def _claim(folder: Path, log: Log) -> FolderLock:
    """The lock of a folder, whose files are then for this user alone."""
    lock = FolderLock.claim(folder)
    keep_private(folder, log)
    name_misplaced(folder, log)
    return lock


async def open_history(settings: Settings, faults: FaultPoints | None = None) -> HistoryDatabase:
    """The database of the history, whose tables are then of this version's format.

    The state of the jobs was opened before. Raises StoreError, also where the history of jobs is missing.
    """
    folder = data_folder(settings)
    history = history_address(settings, folder)
    await asyncio.to_thread(check_history, folder, settings.store.url, history)
    return await asyncio.to_thread(
        HistoryDatabase,
        url=history,
        durability=settings.store.durability,
        faults=faults,
    )


async def keep_contexts(
    settings: Settings,
    store: WholeStore,
    *,
    log: Log,
    is_own: IsOwn,
    faults: FaultPoints | None = None,
) -> WholeStore:
    """`store`, with contexts where `contexts.url` wants them. It is closed where that cannot be done.

    Raises SettingsError, StoreError.
    """
    if settings.contexts.url in IN_THE_ROW:
        return store
    try:
        contexts, is_swept = await open_contexts(settings, owner=store.node_id, log=log)
    except BaseException:
        await store.close()
        raise
    return ApartStore(
        store=store,
        contexts=contexts,
        keeper=ContextKeeper(contexts=contexts, log=log, faults=faults),
        is_own=is_own,
        sweep_after=SWEEP_AFTER_SECONDS if is_swept else None,
    )


async def open_contexts(settings: Settings, *, owner: str, log: Log) -> tuple[ListedContexts, bool]:
    """The store that `contexts.url` names, and whether all that is in it is of the node `owner`.

    Raises SettingsError, StoreError.
    """
    url = settings.contexts.url or ""
    if url == "dapr":
        raise SettingsError(
            'contexts.url = "dapr" is for --runtime dapr; write "sql" or redis://HOST:PORT/DATABASE'
        )
    try:
        from scheduler_service.persistence.contexts.redis import RedisContexts
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"contexts.url needs the package {error.name}; {how_to_install('service', 'redis')}"
        ) from error
    outage = Outage("contexts_unreachable", "contexts_reached_again", log=log)
    return await RedisContexts.open(
        address=read_address(url),
        owner=owner,
        warn=lambda text: log("contexts_unsafe", warning=text),
        on_trouble=outage.note,
    )


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
    loaded: LoadedSettings, surroundings: Surroundings, served: str, node: str, clock: Clock
) -> Callable[[int], WorkerConfig]:
    """Makes the configuration for a start of a worker process. Its steady time is that of `clock`."""

    def config_for(shard: int) -> WorkerConfig:
        return WorkerConfig(
            shard=shard,
            settings=loaded.settings.model_dump_json(context=WHOLE).encode(),
            sources=loaded.sources,
            has_file=loaded.has_file,
            served=served,
            # As it was read once: a file may change or be removed before the process starts again.
            environment=dict(surroundings.environment),
            node=node,
            # By the wall clock as it is now: the stored skew may not include its latest step yet.
            skew=round(time.time() * SECOND) - clock.now().steady,
        )

    return config_for
