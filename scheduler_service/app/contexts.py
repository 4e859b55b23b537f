"""The store of the contexts of qos 1, as `contexts.url` names it."""

from scheduler_service import how_to_install
from scheduler_service.app.sharding import shard_of
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.contexts.address import read_address
from scheduler_service.persistence.contexts.apart_store import ApartStore, ListedContexts, WholeStore
from scheduler_service.persistence.contexts.keeper import ContextKeeper
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings, SettingsError
from scheduler_service.telemetry.tally import Outage

IN_THE_ROW = (None, "sql")
SWEEP_AFTER_SECONDS = 30.0
"""Until then what a crash has interrupted is resumed, which must not wait for it."""


async def keep_contexts(
    settings: Settings,
    store: WholeStore,
    *,
    log: Log,
    faults: FaultPoints | None = None,
    shard: int = 0,
) -> WholeStore:
    """`store`, with contexts where `contexts.url` wants them. It is closed where that cannot be done.

    This process has the jobs of `shard`. Raises SettingsError, StoreError.
    """
    if settings.contexts.url in IN_THE_ROW:
        return store
    try:
        contexts, is_swept = await open_contexts(settings, owner=store.node_id, log=log)
    except BaseException:
        await store.close()
        raise
    job_shard = shard_of(settings.server.workers)
    return ApartStore(
        store=store,
        contexts=contexts,
        keeper=ContextKeeper(contexts=contexts, log=log, faults=faults),
        is_own=lambda job_id: job_shard(job_id) == shard,
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
        on_trouble=lambda text: outage.succeed() if text is None else outage.fail(text),
    )
