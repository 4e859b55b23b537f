"""Builds one node of a cluster over its sidecar and the shared database (`--runtime dapr`)."""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec
import uvloop

from scheduler_service.api.application import create_api
from scheduler_service.app.actor_listener import create_actor_app
from scheduler_service.app.alert_jobs import check_alerts, headers_of, made_here, urls_of
from scheduler_service.app.builders import (
    Outbox,
    judge_of,
    make_cleanup,
    make_host_parts,
    make_sender,
    system_functions,
)
from scheduler_service.app.cluster_join import keep_app_id
from scheduler_service.app.descriptors import current_limit, divide
from scheduler_service.app.history_opening import open_writer
from scheduler_service.app.listener import listen
from scheduler_service.app.node_alerts import make_node_alerts
from scheduler_service.app.node_api import make_node_api, make_readiness
from scheduler_service.app.node_parts import NodeParts
from scheduler_service.app.node_stores import make_events, make_services, open_stores
from scheduler_service.app.process_log import process_log
from scheduler_service.app.process_parts import describe_parts
from scheduler_service.app.server import LAST_ANSWERS_SECONDS, serve
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import Compiler, Secrets, make_surroundings
from scheduler_service.app.system_jobs import install_patiently
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.app.uvicorn_server import Server, make_server
from scheduler_service.console.application import console_mounts
from scheduler_service.engine import parameters  # noqa: F401
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.actor import register
from scheduler_service.hosts.dapr.build import DaprParts, build_dapr_host
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from scheduler_service.hosts.dapr.sidecar_watch import SidecarWatch
from scheduler_service.hosts.host_parts import HostParts
from scheduler_service.hosts.large_work import short_turns
from scheduler_service.hosts.trials import TrialRounds
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.store import SharedCatalogue, SharedStore
from scheduler_service.ports.log import Log
from scheduler_service.settings import Loaded
from scheduler_service.settings.model import Settings
from scheduler_service.transport.sender import SystemFunction
from scheduler_service.transport.service_urls import InvocationDirectory, InvocationSender
from scheduler_service.transport.topics import TopicSender

# That of the API, and that of daprd.
LISTENERS = 2

# daprd keeps its connections for minutes: one that this side closes before would lose a turn.
SIDECAR_KEEP_ALIVE_SECONDS = 600


class ClusterJobs:
    """The jobs in the shared database (`hosts.cleanup.DestroyedJobs`)."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self.catalogue = SharedCatalogue(database=database)
        self.forget = SharedStore(database=database).forget


def run_node(loaded: Loaded) -> None:
    """`punctual serve --runtime dapr`. Raises SettingsError and StoreError where it cannot start."""
    with process_log(loaded.settings) as log:
        uvloop.run(serve(loaded, log=log, opening=open_node, listeners=LISTENERS))


class NodeService:
    """One running node: `api` is its ASGI application; the actors have a listener of their own."""

    def __init__(self, *, loaded: Loaded, parts: NodeParts, log: Log) -> None:
        self._is_stopping = False
        self._readiness = make_readiness(parts, lambda: self._is_stopping)
        self._alerts = make_node_alerts(
            settings=loaded.settings,
            cluster=parts.cluster,
            database=parts.database,
            clock=parts.clock,
            host=parts.host,
            catalogue=parts.catalogue,
            compiler=parts.compiler,
            services=parts.services,
            telemetry=parts.telemetry,
        )
        self._api_parts = make_node_api(loaded, parts, self._readiness, self._alerts, log)
        self.api = create_api(self._api_parts, mounts=console_mounts())
        self._trial_rounds = TrialRounds(trials=parts.cleaner.trials, clock=parts.clock, log=log)
        self.telemetry = parts.telemetry
        self._loaded = loaded
        self._parts = parts
        self._log = log
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def resumed(self) -> None:
        """Returns at once: what waits for daprd may wait long, and the API answers meanwhile."""

    async def start(self) -> None:
        """Answers daprd, waits until actors can be used, takes turns. Raises StoreError, SettingsError."""
        parts, settings = self._parts, self._loaded.settings
        self._readiness.watch()
        host, watch = parts.host, parts.watch
        listener = listen("127.0.0.1", settings.dapr.app_port)
        await register(host, parts.client)
        shares = divide(current_limit(), listeners=LISTENERS, connections=settings.limits.connections)
        self._server = make_server(
            create_actor_app(host, token=settings.dapr.app_token),
            log=self._log,
            connections=shares.api,
            head_seconds=settings.limits.head_seconds,
            keep_alive_seconds=SIDECAR_KEEP_ALIVE_SECONDS,
        )
        self.telemetry.show_connections("sidecar", self._server.connections)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        await watch.wait()
        await keep_app_id(parts.cluster.nodes, watch.app_id)
        watch.start(host.report_missing, host.active)
        parts.events.start()
        parts.services.start_sharing()
        await host.start()
        await parts.services.start_queues(host)
        await install_patiently(host, parts.compiler, settings, clock=parts.clock, log=self._log)
        await self._alerts.start()
        self._trial_rounds.start()
        self._log(
            "ready", node=parts.cluster.heartbeat.holder.node, daprd=watch.metadata.get("runtimeVersion")
        )

    def describe(self) -> Mapping[str, Mapping[str, object]]:
        """The figures of each part."""
        parts = self._parts
        return describe_parts(
            parts.host, parts.sender, parts.writer, commits_waiting=parts.shared.commits_waiting
        )

    def processes(self) -> Iterable[int]:
        """None: a node is one process."""
        return ()

    async def breaks(self) -> str:
        """Never returns: a node goes on when what it needs comes back."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything (SPEC section 14)."""
        parts, self._is_stopping = self._parts, True
        self._log("draining", graceMs=grace, running=parts.host.running)
        parts.services.stop_claims()
        began = parts.clock.now().steady
        await asyncio.gather(self._alerts.stop(), self._api_parts.operations.stop(grace))
        left = max(grace - (parts.clock.now().steady - began), 0)
        await asyncio.gather(parts.host.stop(left), self._trial_rounds.stop())
        await parts.events.stop()
        await parts.telemetry.end_events()
        await parts.watch.stop()
        if self._server is not None and self._serving is not None:
            await self._server.end(self._serving, seconds=LAST_ANSWERS_SECONDS)
        await parts.close()
        self._readiness.stop()
        self._log("stopped")

    def flush_log(self) -> None:
        """Writes the lines that the API still sums up, after its last answer."""
        self._api_parts.store_faults.flush()


async def open_node(loaded: Loaded, *, served: str, log: Log) -> NodeService:
    """Opens the databases and builds the node; nothing fires before `start`.

    Raises StoreError where they cannot be used or a node of this name is running, SettingsError.
    """
    settings, telemetry = loaded.settings, Telemetry(settings=loaded.settings, log=log)
    log, stores = telemetry.log, await open_stores(settings, served, telemetry.log)
    database, clock, own = stores.database, stores.clock, made_here(settings)
    telemetry.follow(clock)
    client, watch = _meet_sidecar(settings, clock, log)
    surroundings, compiler = _make_compiler(loaded, served)
    # The host is built on the writer, which confirms what it has written to the host's store.
    writer = open_writer(lambda keys: host.store.written(keys), database, log, own, telemetry.history_watch)
    outbox, jobs = Outbox(), ClusterJobs(database=stores.shared)
    cleaner = make_cleanup(settings, jobs, writer, clock, lambda *turn: host(*turn))
    services, directory = make_services(settings, stores, log)
    system = system_functions(cleaner, outbox, services)
    sender = _make_node_sender(loaded, served, directory, system, clock, telemetry)
    host_parts = make_host_parts(
        settings,
        compiler,
        history=writer,
        sender=sender,
        router=services.router,
        clock=clock,
        log=log,
        decorators=telemetry.decorators,
    )
    host: DaprHost = _make_host(host_parts, stores.cluster, client, services)
    await _attach(services, host, jobs.catalogue, compiler, outbox)
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
    check_alerts(settings, surroundings)
    compiler = Compiler(
        defaults=settings.defaults,
        surroundings=surroundings,
        history_detail=settings.history.detail,
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
) -> InvocationSender:
    """The sender of a node, which reaches services through its sidecar as well."""
    sender = make_sender(
        loaded,
        served,
        directory=directory,
        system=system,
        clock=clock,
        log=telemetry.log,
        listeners=LISTENERS,
        sidecar=directory,
    )
    telemetry.show("connections", sender.samples)
    dapr = loaded.settings.dapr
    topics = TopicSender(sender=sender, http_port=dapr.http_port, token=dapr.api_token)
    return InvocationSender(sender=topics)


def _make_host(
    parts: HostParts, cluster: Cluster, client: SidecarClient, services: ServiceRegistry
) -> DaprHost:
    return build_dapr_host(
        DaprParts(
            cluster=cluster,
            sidecar=Sidecar(client=client),
            owner_of=services.owner_of,
            tend_queues=services.tend_queues,
            **{**msgspec.structs.asdict(parts), "wake_claimers": services.wake_claimers},
        )
    )


async def _attach(
    services: ServiceRegistry,
    host: DaprHost,
    catalogue: SharedCatalogue,
    compiler: Compiler,
    outbox: Outbox,
) -> None:
    outbox.notifications = host.notifications
    await services.attach(
        deliver=host,
        read_job=host.read,
        catalogue=catalogue,
        definition=host.store.definition,
        compile_text=compiler.stored,
    )
