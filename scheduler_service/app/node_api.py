"""What the API of a node of a cluster is made of: its readiness, its figures, and whom it asks."""

from collections.abc import Callable
from functools import partial

from scheduler_service.api.dependencies import AlertReader, ApiDependencies
from scheduler_service.app.api_parts import ServedJobs, ServedRooms, make_api_parts
from scheduler_service.app.metrics import ShownParts, make_exposition
from scheduler_service.app.node_parts import NodeParts, list_nodes
from scheduler_service.app.readiness import Readiness
from scheduler_service.app.review import Review
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
        pauses=parts.services.registry.pauses,
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


def make_node_api(
    loaded: Loaded, parts: NodeParts, readiness: Readiness, alerts: AlertReader, review: Review, log: Log
) -> ApiDependencies:
    """What the API of a node asks and commands."""
    host = parts.host

    async def flush(job_id: str | None = None) -> None:
        await parts.writer.flush()

    rooms = ServedRooms(
        loaded=loaded,
        compiler=parts.compiler,
        surroundings=parts.surroundings,
        services=parts.services,
        operations=Operations(
            store=host.store, clock=parts.clock, holder=parts.cluster.heartbeat.holder, log=log
        ),
        cleaner=parts.cleaner,
        reads=parts.reads,
        readiness=readiness,
        nodes=partial(list_nodes, parts),
        telemetry=parts.telemetry,
        events=parts.telemetry.feed_events(parts.events),
        metrics=_make_exposition(parts),
        alerts=alerts,
        review=review,
        clock=parts.clock,
        log=log,
    )
    jobs = ServedJobs(
        deliver=host,
        create_all=host.create_all,
        peek=host.peek,
        read=host.read,
        flush=flush,
        catalogue=parts.catalogue,
        store=host.store,
        outbox=host.notifications,
        queues=parts.services.queues,
    )
    return make_api_parts(rooms, jobs)
