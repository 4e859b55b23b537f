"""What the API of a node of a cluster is made of: its readiness, its figures, and whom it asks."""

from collections.abc import Callable
from functools import partial

from scheduler_service import __version__
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.app.builders import (
    admit_of,
    machine_user,
    name_check_of,
)
from scheduler_service.app.metrics import ShownParts, make_exposition
from scheduler_service.app.node_parts import NodeParts, list_nodes
from scheduler_service.app.readiness import Readiness
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.ports.log import Log
from scheduler_service.settings import Loaded
from scheduler_service.telemetry.metrics.exposition import Exposition


def _make_exposition(parts: NodeParts) -> Exposition | None:
    shown = ShownParts(
        host=parts.host,
        counted={"history": parts.writer.samples, "state": parts.shared.samples},
        catalogue=parts.catalogue,
        deliveries=parts.host.store,
        queues=parts.services.queues,
        instances=parts.services.registry.instances,
        clock=parts.clock,
        nodes=partial(list_nodes, parts),
        node=parts.cluster.heartbeat.holder.node,
        kind="dapr",
    )
    return make_exposition(parts.telemetry.metrics, shown)


def make_readiness(parts: NodeParts, is_stopping: Callable[[], bool]) -> Readiness:
    """What a node needs to be ready; one that stops is not, though what it has begun may need its jobs."""
    return Readiness(
        parts={
            "host": lambda: [] if parts.host.is_ready and not is_stopping() else ["host"],
            "sidecar": lambda: parts.watch.missing,
            "history": parts.telemetry.history_watch.lacks,
        },
        clock=parts.clock,
    )


def make_api_parts(loaded: Loaded, parts: NodeParts, readiness: Readiness, log: Log) -> ApiDependencies:
    """What the API of a node asks and commands."""
    host = parts.host

    async def flush(job_id: str | None = None) -> None:
        await parts.writer.flush()

    return ApiDependencies(
        deliver=host,
        create_all=host.create_all,
        peek=host.peek,
        read_job=host.read,
        compile_definition=parts.compiler.posted,
        compile_cache=parts.compiler.compile_cache,
        surroundings=parts.surroundings,
        catalogue=parts.catalogue,
        store=host.store,
        operations=Operations(
            store=host.store, clock=parts.clock, holder=parts.cluster.heartbeat.holder, log=log
        ),
        trials=parts.cleaner.trials,
        history=parts.reads,
        outbox=host.notifications,
        clean=parts.cleaner,
        clock=parts.clock,
        registry=parts.services.registry,
        queues=parts.services.queues,
        reconcile=parts.services.scan,
        drift=parts.services.drift,
        admit=admit_of(loaded),
        check_names=name_check_of(loaded),
        heartbeat_seconds=loaded.settings.services.heartbeat_seconds,
        flush=flush,
        ready=readiness.list_missing,
        parts=readiness.describe,
        standstills=parts.telemetry.standstills,
        log=log,
        nodes=partial(list_nodes, parts),
        events=parts.telemetry.feed_events(parts.events),
        version=__version__,
        admin_key=loaded.settings.server.key,
        user=machine_user(),
        body_bytes=loaded.settings.limits.body_bytes,
        feedback_bytes=loaded.settings.limits.feedback_bytes,
        options=parts.compiler.options,
        settings=loaded.describe,
        metrics=_make_exposition(parts),
    )
