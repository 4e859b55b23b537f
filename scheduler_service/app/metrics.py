"""Adds to the figures of a process what its parts know: host, stores, queues, services, nodes."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from scheduler_service import __version__
from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.job_key import DEFAULT_TENANT, write_job_key
from scheduler_service.domain.leases import QueueQuery
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import Kind
from scheduler_service.hosts.host import Host
from scheduler_service.hosts.pending_notifications import read_pages
from scheduler_service.hosts.work_thread import large_work_samples, work_apart
from scheduler_service.http_server.connections import Connections
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.state import StateStore
from scheduler_service.services.instances import Instances
from scheduler_service.services.pauses import Pauses
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.settings import Settings
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.exposition import Exposition
from scheduler_service.telemetry.metrics.gathering import Gathering
from scheduler_service.telemetry.metrics.metric_list import Ask, Sample, Source
from scheduler_service.telemetry.metrics.process_metrics import ProcessMetrics

ListNodes = Callable[[], Awaitable[Sequence[Mapping[str, object]]]]
OWN = "0"
"""The process that answers, as the label `process` names it."""

MOST_QUEUES = 100
MOST_SERVICES = 100
OTHER = "other"
"""Beyond so many, names are summed up under this one: no label is without a bound."""

PAGE, MOST_PAGES = 500, 20
OUTBOX_SECONDS = 30.0


def make_metrics(settings: Settings) -> ProcessMetrics | None:
    """The figures of this process; None: they are off."""
    given = settings.metrics
    if not given.enabled:
        return None
    return ProcessMetrics(jobs=[write_job_key(DEFAULT_TENANT, job_id) for job_id in given.jobs])


def make_exposition(
    metrics: ProcessMetrics | None,
    *,
    host: Host,
    counted: Mapping[str, Source],
    catalogue: Catalogue,
    deliveries: StateStore,
    queues: PullQueues,
    instances: Instances,
    pauses: Pauses,
    clock: Clock,
    nodes: ListNodes,
    node: str,
    kind: str,
    others: Mapping[str, Ask] | None = None,
) -> Exposition | None:
    """The answer to scrapes of a service, or of a node; None: metrics are off.

    `counted` know figures of their own: history, state, connections. `nodes` lists the nodes as `GET /nodes`
    does; `node` is the name of this one, `kind` `embedded` or `dapr`. `others` are the worker processes by
    their numbers.
    """
    if metrics is None:
        return None
    gathering, build = metrics.gathering, Sample(metric_list.BUILD_INFO.name, (__version__, node, kind), 1)
    add_host(gathering, host, counted)
    add_outbox(gathering, deliveries, clock)
    gathering.read("instances", lambda: count_instances(instances, clock.now().steady))
    gathering.read("pauses", lambda: time_pauses(pauses, clock.now().steady))
    gathering.read("build", lambda: [build])
    gathering.ask("catalogue", lambda: count_jobs(catalogue, clock))
    gathering.ask("queues", lambda: read_queues(queues, clock))
    gathering.ask("nodes", lambda: count_nodes(nodes))
    processes = {OWN: gathering.collect, **(others or {})}
    return Exposition(processes=processes, requests=metrics.requests, apart=work_apart)


def add_host(gathering: Gathering, host: Host, counted: Mapping[str, Source]) -> None:
    """The figures of the host, and of what is `counted` by itself."""

    def read() -> Iterator[Sample]:
        effects = host.effects
        yield Sample(metric_list.JOBS_HELD.name, (), host.jobs_held)
        yield Sample(metric_list.JOBS_RUNNING.name, (), host.running)
        yield Sample(metric_list.OPEN_BYTES.name, (), host.open_bytes)
        yield Sample(metric_list.CALLS_IN_FLIGHT.name, (), len(effects.calls))
        yield Sample(metric_list.NOTIFICATIONS_PENDING.name, (), len(effects.notifications))

    gathering.read("host", read)
    gathering.read("large_work", large_work_samples)
    for name, source in counted.items():
        gathering.read(name, source)


async def count_jobs(catalogue: Catalogue, clock: Clock) -> Sequence[Sample]:
    """The jobs by state, and how many executions are due, wait and run. Raises StoreError."""
    counts = await catalogue.counts(clock.now(), tenant=None)
    return [
        *(Sample(metric_list.JOBS.name, (str(state),), count) for state, count in counts.by_state.items()),
        Sample(metric_list.FIRINGS_DUE.name, (), counts.due),
        Sample(metric_list.EXECUTIONS_WAITING.name, (), counts.waiting),
        Sample(metric_list.EXECUTIONS_RUNNING.name, (), counts.running),
    ]


def add_outbox(gathering: Gathering, store: StateStore, clock: Clock) -> None:
    """The notifications of this process that wait to be sent again."""
    gathering.ask("outbox", lambda: read_outbox(store, clock), keep_seconds=OUTBOX_SECONDS)


async def read_outbox(store: StateStore, clock: Clock) -> Sequence[Sample]:
    """What lies in the outbox, among the first 20 pages of durable deliveries. Raises StoreError."""
    count, oldest, pages = 0, None, 0
    async for page in read_pages(lambda after: store.deliveries(after, PAGE), lambda _: None):
        for one in page:
            if one.state is DeliveryState.OUTBOX:
                count += 1
                oldest = one.created_at if oldest is None else min(oldest, one.created_at)
        pages += 1
        if pages == MOST_PAGES:
            break
    age = 0 if oldest is None else max(0, clock.now().wall - oldest) / SECOND
    return [Sample(metric_list.OUTBOX.name, (), count), Sample(metric_list.OUTBOX_AGE.name, (), age)]


async def read_queues(store: PullQueues, clock: Clock) -> Sequence[Sample]:
    """The first 100 queues by name. Raises StoreError."""
    found = await store.figures(QueueQuery(tenant=DEFAULT_TENANT, limit=MOST_QUEUES))
    now = clock.now().wall
    samples = []
    for one in found:
        age = 0 if one.oldest is None else max(0, now - one.oldest) / SECOND
        samples += [
            Sample(metric_list.QUEUE_DEPTH.name, (one.name,), one.depth),
            Sample(metric_list.QUEUE_OLDEST.name, (one.name,), age),
            Sample(metric_list.QUEUE_LEASED.name, (one.name,), one.held),
        ]
    return samples


async def count_nodes(nodes: ListNodes) -> Sequence[Sample]:
    """The nodes by state. Raises StoreError."""
    states = [str(one["state"]) for one in await nodes()]
    return [Sample(metric_list.NODES.name, (state,), states.count(state)) for state in sorted(set(states))]


def count_instances(instances: Instances, now: int) -> Iterator[Sample]:
    """The instances by service and state, at `now` (steady ms); no tenant's name but those of `default`."""
    counts: dict[str, dict[str, int]] = {}
    for one in sorted(instances.all(), key=lambda one: one.service):
        is_named = one.service in counts or len(counts) < MOST_SERVICES
        name = one.service if is_named and one.tenant == DEFAULT_TENANT else OTHER
        states = counts.setdefault(name, {"online": 0, "draining": 0, "offline": 0})
        online = "draining" if one.draining else "online"
        states[online if instances.is_online(one, now) else "offline"] += 1
    for service, states in counts.items():
        for state, count in states.items():
            yield Sample(metric_list.INSTANCES.name, (service, state), count)


def time_pauses(pauses: Pauses, now: int) -> Iterator[Sample]:
    """How long the first 100 queues and services by name are paused, at `now` (steady ms)."""
    of_kind = {Kind.QUEUE: metric_list.QUEUE_PAUSED, Kind.SERVICE: metric_list.SERVICE_PAUSED}
    for kind, family in of_kind.items():
        own = [one for one in pauses.all(kind) if one.tenant == DEFAULT_TENANT]
        for one in own[:MOST_QUEUES]:
            yield Sample(family.name, (one.name,), max(0, now - one.since) / SECOND)


def add_connections(gathering: Gathering, listener: str, connections: Connections) -> None:
    """The connections of one listener."""

    def read() -> Iterator[Sample]:
        yield Sample(metric_list.API_CONNECTIONS.name, (listener,), connections.count)
        yield Sample(metric_list.API_CONNECTIONS_LIMIT.name, (listener,), connections.most)
        for reason, count in connections.events.counts.items():
            yield Sample(metric_list.API_CONNECTIONS_CLOSED.name, (listener, reason), count)

    gathering.read(f"connections_{listener}", read)
