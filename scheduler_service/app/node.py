"""Builds one node of a cluster over its sidecar and the shared database (`--runtime dapr`)."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec
import uvloop

from scheduler_service.app.alert_jobs import headers_of, made_here, urls_of
from scheduler_service.app.builders import (
    judge_of,
    make_cleanup,
    make_host_parts,
    make_sender,
    open_writer,
    system_functions,
)
from scheduler_service.app.cluster_join import join_cluster, node_id, shared_url
from scheduler_service.app.data_folder import history_address, keep_private
from scheduler_service.app.node_service import LISTENERS, NodeParts, NodeService
from scheduler_service.app.own_process import process_log
from scheduler_service.app.server import serve, through_hangups
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import Compiler, Secrets, make_surroundings
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.engine import parameters  # noqa: F401 - else the first schema's turn would import it
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.build import DaprParts, build_dapr_host
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.hosts.dapr.node_events import NodeEvents
from scheduler_service.hosts.dapr.sidecar import ActorContexts, Sidecar
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from scheduler_service.hosts.dapr.sidecar_watch import SidecarWatch
from scheduler_service.hosts.host_parts import HostParts
from scheduler_service.pacing.room import Room
from scheduler_service.pacing.short_turns import short_turns
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.sql_cluster.catalogue import SharedCatalogue
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.events import SharedEvents
from scheduler_service.persistence.sql_cluster.queues import ClusterQueues
from scheduler_service.persistence.sql_cluster.rates import SqlRates
from scheduler_service.persistence.sql_cluster.shared_registry import SqlSharedRegistry
from scheduler_service.persistence.sql_cluster.store import SharedStore
from scheduler_service.ports.log import Log
from scheduler_service.services.instances import Instances
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.queue_watch import DOWNTIME_MS, QueueWatch
from scheduler_service.services.rate_sharing import RateSharing
from scheduler_service.services.shared_view import SharedView
from scheduler_service.settings import Loaded, SettingsError
from scheduler_service.settings.model import Settings
from scheduler_service.telemetry.tally import Tally
from scheduler_service.transport.pool import RESPONSES_BYTES
from scheduler_service.transport.sender import SystemFunction
from scheduler_service.transport.service_urls import InvocationDirectory, InvocationSender
from scheduler_service.transport.topics import TopicSender


class ClusterJobs:
    """The jobs in the shared database (`hosts.cleanup.DestroyedJobs`)."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self.catalogue = SharedCatalogue(database=database)
        self.forget = SharedStore(database=database).forget


def run_node(loaded: Loaded) -> None:
    """`punctual serve --runtime dapr`. Raises SettingsError and StoreError where it cannot start."""
    with process_log(loaded.settings) as log:
        serving = serve(loaded, log=log, opening=open_node, listeners=LISTENERS)
        uvloop.run(through_hangups(serving, log=log))


async def open_node(loaded: Loaded, *, served: str, log: Log) -> NodeService:
    """A node that fires nothing before `start`. Raises SettingsError; StoreError, also if it is running."""
    settings, telemetry = loaded.settings, Telemetry(settings=loaded.settings, log=log)
    log, stores = telemetry.log, await open_stores(settings, served, telemetry.log)
    database, clock, own = stores.database, stores.clock, made_here(settings)
    telemetry.follow(clock)
    client, watch = _meet_sidecar(settings, clock, log)
    surroundings, compiler = _make_compiler(loaded, served)
    # The host is built on the writer, which confirms what it has written to the host's store.
    writer = open_writer(lambda keys: host.store.written(keys), database, log, own, telemetry.history_watch)
    jobs, room = ClusterJobs(database=stores.shared), Room(RESPONSES_BYTES)
    cleaner = make_cleanup(settings, jobs, writer, clock, lambda *turn: host(*turn))
    services, directory = make_services(settings, stores, log)
    system = system_functions(cleaner, lambda: host.notifications.resend_outbox(), services)
    sender = _make_node_sender(loaded, served, directory, system, clock, telemetry, room)
    host_parts = make_host_parts(
        settings,
        compiler,
        history=writer,
        sender=sender,
        room=room,
        router=services.router,
        clock=clock,
        log=log,
        decorators=telemetry.decorators,
    )
    host: DaprHost = _make_host(host_parts, stores.cluster, client, services, loaded.settings.contexts.url)
    await _attach(services, host, jobs.catalogue, compiler)
    parts = NodeParts(
        shared=stores.shared,
        catalogue=jobs.catalogue,
        cluster=stores.cluster,
        database=database,
        writer=writer,
        reads=HistoryReads(database=database, system_jobs=own, reading=short_turns),
        sender=sender,
        client=client,
        watch=watch,
        host=host,
        compiler=compiler,
        clock=clock,
        services=services,
        cleaner=cleaner,
        surroundings=surroundings,
        telemetry=telemetry,
        events=make_events(stores, telemetry),
    )
    return NodeService(loaded=loaded, parts=parts, log=log)


def _meet_sidecar(settings: Settings, clock: SystemClock, log: Log) -> tuple[SidecarClient, SidecarWatch]:
    dapr = settings.dapr
    client = SidecarClient(http_port=dapr.http_port, grpc_port=dapr.grpc_port, token=dapr.api_token)
    return client, SidecarWatch(http_port=dapr.http_port, clock=clock, log=log, token=dapr.api_token)


def _make_compiler(loaded: Loaded, served: str) -> tuple[Surroundings, Compiler]:
    settings = loaded.settings
    surroundings = msgspec.structs.replace(
        make_surroundings(settings, served, judge_target=judge_of(loaded)), topics=True
    )
    compiler = Compiler(
        defaults=settings.defaults,
        surroundings=surroundings,
        history=settings.history,
        secrets=Secrets(headers=headers_of(settings), urls=urls_of(settings)),
    )
    return surroundings, compiler


def _make_node_sender(
    loaded: Loaded,
    served: str,
    directory: InvocationDirectory,
    system: Mapping[str, SystemFunction],
    clock: SystemClock,
    telemetry: Telemetry,
    room: Room,
) -> InvocationSender:
    """The sender of a node, which reaches services through its sidecar as well."""
    sender = make_sender(
        loaded,
        served,
        directory=directory,
        system=system,
        clock=clock,
        log=telemetry.log,
        room=room,
        listeners=LISTENERS,
        sidecar=directory,
    )
    telemetry.show("connections", sender.samples)
    dapr = loaded.settings.dapr
    topics = TopicSender(sender=sender, http_port=dapr.http_port, token=dapr.api_token)
    return InvocationSender(sender=topics)


def _make_host(
    parts: HostParts, cluster: Cluster, client: SidecarClient, services: ServiceRegistry, contexts: str | None
) -> DaprHost:
    """`contexts`: the setting `contexts.url`, in the actor state store where it names nothing else."""
    if contexts not in (None, "dapr", "sql"):
        raise SettingsError(
            'contexts.url is "dapr" or "sql" with --runtime dapr: the jobs of all nodes need it'
        )
    sidecar = Sidecar(client=client)
    return build_dapr_host(
        DaprParts(
            cluster=cluster,
            sidecar=sidecar,
            contexts=ActorContexts(sidecar=sidecar),
            puts_contexts=contexts != "sql",
            owner_of=services.owner_of,
            tend_queues=services.tend_queues,
            **{**msgspec.structs.asdict(parts), "wake_claimers": services.wake_claimers},
        )
    )


async def _attach(
    services: ServiceRegistry, host: DaprHost, catalogue: SharedCatalogue, compiler: Compiler
) -> None:
    await services.attach(
        deliver=host,
        read_job=host.read,
        catalogue=catalogue,
        definition=host.store.definition,
        compile_text=compiler.stored,
    )


class NodeStores(msgspec.Struct, frozen=True):
    """The shared database and its clock, the cluster in it that the node has joined, and the history."""

    shared: SharedDatabase
    clock: SystemClock
    cluster: Cluster
    database: HistoryDatabase


async def open_stores(settings: Settings, served: str, log: Log) -> NodeStores:
    """Opens the databases, and joins the cluster at the address `served`.

    Raises StoreError where they cannot be used or a node of this name is running, SettingsError.
    """
    folder = Path(settings.store.data)
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    await asyncio.to_thread(keep_private, folder, log)
    shared = await SharedDatabase.open(url=shared_url(settings.database.url, folder))
    clock = SystemClock(skew=shared.clock_skew, on_step=_ignore_step)
    cluster = await join_cluster(shared, clock, node_id(settings, served), served, log)
    database = await asyncio.to_thread(
        HistoryDatabase, url=history_address(settings, folder), durability=settings.store.durability
    )
    return NodeStores(shared, clock, cluster, database)


def make_services(
    settings: Settings, stores: NodeStores, log: Log
) -> tuple[ServiceRegistry, InvocationDirectory]:
    """The services that are known, and their addresses: of one that is not known, that of the sidecar."""

    def share(instances: Instances) -> SharedView:
        heartbeat = stores.cluster.heartbeat
        return SharedView(
            shared=SqlSharedRegistry(database=stores.shared),
            instances=instances,
            clock=stores.clock,
            node=heartbeat.holder.node,
            others=lambda: heartbeat.others,
            log=log,
        )

    holder = stores.cluster.heartbeat.holder
    table = ClusterQueues(database=stores.shared, downtime=DOWNTIME_MS)
    queues = PullQueues(table=table, clock=stores.clock, log=log)
    services = ServiceRegistry(
        database=stores.database,
        settings=settings.services,
        keeps=settings.defaults.on_change == "keep",
        clock=stores.clock,
        tenant=DEFAULT_TENANT,
        log=log,
        queues=queues,
        queue_watch=QueueWatch(queues=queues, table=table, clock=stores.clock, log=log),
        share=share,
        rates=RateSharing(
            shared=SqlRates(database=stores.shared),
            clock=stores.clock,
            holder=f"{holder.node} {holder.boot}",
            log=log,
        ),
    )
    dapr = settings.dapr
    directory = InvocationDirectory(known=services.directory, http_port=dapr.http_port, token=dapr.api_token)
    services.fall_back_to(directory.base_of)
    return services, directory


def make_events(stores: NodeStores, telemetry: Telemetry) -> NodeEvents:
    """The events of the cluster, at this node."""
    return NodeEvents(
        shared=SharedEvents(database=stores.shared),
        occurrences=telemetry.occurrences,
        clock=stores.clock,
        node=stores.cluster.heartbeat.holder.node,
        failed=Tally("events_not_shared", log=telemetry.log),
    )


async def _ignore_step(skew: int) -> None:
    """Steady time is the database's: each start reads anew how far this machine's clock is from it."""
