"""What the API is made of, the same for a service and for a node of a cluster."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from scheduler_service import __version__
from scheduler_service.api.dependencies import (
    AlertReader,
    ApiDependencies,
    CreateAll,
    Flush,
    NotificationOutbox,
    Offload,
)
from scheduler_service.app.builders import admit_of, machine_user, name_check_of
from scheduler_service.app.readiness import Readiness
from scheduler_service.app.review import Review
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import Compiler
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.engine.decision import Job
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.cleanup import Cleanup
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Deliver
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import RequestStore
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.settings import Loaded
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.metrics.exposition import Exposition


class ServedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs as the API commands and reads them; `ApiDependencies` says what each member is."""

    deliver: Deliver
    create_all: CreateAll
    peek: Callable[[str], CatalogueEntry | None]
    read: Callable[[str], Awaitable[Job | None]]
    flush: Flush
    catalogue: Catalogue
    store: RequestStore
    outbox: NotificationOutbox
    queues: PullQueues | None
    offload: Offload | None = None


class ServedRooms(msgspec.Struct, frozen=True, kw_only=True):
    """What else a service or a node has for its API."""

    loaded: Loaded
    compiler: Compiler
    surroundings: Surroundings
    services: ServiceRegistry
    operations: Operations
    cleaner: Cleanup
    reads: HistoryReads
    readiness: Readiness
    nodes: Callable[[], Awaitable[Sequence[Mapping[str, object]]]]
    telemetry: Telemetry
    events: EventFeed
    metrics: Exposition | None
    alerts: AlertReader | None
    review: Review
    clock: Clock
    log: Log


def make_api_parts(rooms: ServedRooms, jobs: ServedJobs) -> ApiDependencies:
    """What the API asks and commands, within the bounds that the settings give it."""
    loaded, settings = rooms.loaded, rooms.loaded.settings
    return ApiDependencies(
        deliver=jobs.deliver,
        create_all=jobs.create_all,
        peek=jobs.peek,
        read_job=jobs.read,
        flush=jobs.flush,
        catalogue=jobs.catalogue,
        store=jobs.store,
        outbox=jobs.outbox,
        queues=jobs.queues,
        offload=jobs.offload,
        compile_definition=rooms.compiler.posted,
        compile_stored=rooms.compiler.stored,
        compile_cache=rooms.compiler.compile_cache,
        options=rooms.compiler.options,
        surroundings=rooms.surroundings,
        registry=rooms.services.registry,
        reconcile=rooms.services.scan,
        drift=rooms.services.drift,
        operations=rooms.operations,
        clean=rooms.cleaner,
        trials=rooms.cleaner.trials,
        history=rooms.reads,
        ready=rooms.readiness.list_missing,
        parts=rooms.readiness.describe,
        nodes=rooms.nodes,
        standstills=rooms.telemetry.standstills,
        events=rooms.events,
        metrics=rooms.metrics,
        alerts=rooms.alerts,
        find_unfit=rooms.review.unfit.find,
        list_unfit=rooms.review.unfit.list,
        clock=rooms.clock,
        log=rooms.log,
        version=__version__,
        settings=loaded.describe,
        admit=admit_of(loaded),
        check_names=name_check_of(loaded),
        admin_key=settings.server.key,
        own_url=settings.server.external_url,
        user=machine_user(),
        heartbeat_seconds=settings.services.heartbeat_seconds,
        body_bytes=settings.limits.body_bytes,
        feedback_bytes=settings.limits.feedback_bytes,
    )
