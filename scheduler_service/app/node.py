"""Puts one node of a cluster together, over its sidecar and the shared database (`--runtime dapr`)."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

import msgspec
import uvloop
from fastapi import FastAPI

from scheduler_service import __version__
from scheduler_service.api.application import create_api
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.app.actor_listener import create_actor_app, make_actor_server
from scheduler_service.app.builders import (
    Outbox,
    limits_of,
    make_cleanup,
    make_core,
    make_masking,
    make_sender,
    open_writer,
    system_functions,
)
from scheduler_service.app.cluster_join import join_cluster, keep_app_id, node_id, node_wire, shared_url
from scheduler_service.app.data_folder import history_address
from scheduler_service.app.egress import admit_of
from scheduler_service.app.server import Server, listen, serve
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import TENANT, Compiler, make_surroundings
from scheduler_service.app.system_jobs import NAMES, install_patiently
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.cleanup import Cleanup
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.actor import register
from scheduler_service.hosts.dapr.actor_store import ActorStore
from scheduler_service.hosts.dapr.build import Cluster, DaprParts, build_dapr_host
from scheduler_service.hosts.dapr.heartbeat import CUT_OFF, RUNNING
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from scheduler_service.hosts.dapr.sidecar_watch import SidecarWatch
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.sql_cluster.catalogue import SharedCatalogue
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.store import SharedStore
from scheduler_service.ports.log import Log
from scheduler_service.settings import Loaded, Settings
from scheduler_service.telemetry.logs import stderr_log
from scheduler_service.timing.misfire import count_missed
from scheduler_service.transport.invocation import InvocationDirectory, InvocationSender


class NodeParts(msgspec.Struct, frozen=True):
    """What a node holds open."""

    shared: SharedDatabase
    cluster: Cluster
    database: HistoryDatabase
    writer: HistoryWriter
    reads: HistoryReads
    sender: InvocationSender
    client: SidecarClient
    watch: SidecarWatch
    host: DaprHost
    compiler: Compiler
    clock: SystemClock
    services: ServiceRegistry


class DestroyedInCluster:
    """What the cleaner sees of the shared database."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self.catalogue = SharedCatalogue(database=database)
        self.forget = SharedStore(database=database).forget


def run_node(loaded: Loaded) -> None:
    """`punctual serve --runtime dapr`. Raises SettingsError and StoreError where it cannot start."""
    uvloop.run(serve(loaded, log=stderr_log(), opening=open_node))


class NodeService:
    """One running node: `api` is its ASGI application; the actors have a listener of their own."""

    def __init__(self, *, loaded: Loaded, held: NodeParts, api: FastAPI, log: Log) -> None:
        self.api = api
        self._loaded = loaded
        self._held = held
        self._log = log
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Answers daprd, waits until actors can be used, takes turns. Raises StoreError, SettingsError."""
        held, settings = self._held, self._loaded.settings
        listener = listen("127.0.0.1", settings.dapr.app_port)
        await register(held.host, held.client)
        self._server = make_actor_server(create_actor_app(held.host, self._is_healthy))
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        await held.watch.wait()
        await keep_app_id(held.cluster.nodes, held.watch.app_id)
        held.watch.start(self._tell_others)
        await held.host.start()
        await install_patiently(held.host, held.compiler, settings, clock=held.clock, log=self._log)
        self._log(
            "ready", node=held.cluster.presence.holder.node, daprd=held.watch.metadata.get("runtimeVersion")
        )

    async def breaks(self) -> str:
        """Never: a node goes on when what it needs comes back."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything (SPEC section 14)."""
        held = self._held
        self._log("draining", graceMs=grace, running=held.host.running)
        await held.host.stop(grace)
        await held.watch.stop()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
        await held.client.close()
        await held.sender.close()
        await held.reads.close()
        await held.services.close()
        held.database.close()
        await held.shared.close()
        self._log("stopped")

    async def _tell_others(self, missing: Sequence[str]) -> None:
        """Without its sidecar a node reaches no job: the others go on with what it ran."""
        if not self._held.host.is_draining:
            await self._held.cluster.presence.say(CUT_OFF if "sidecar" in missing else RUNNING)

    def _is_healthy(self) -> bool:
        """Stopping, a node is not: daprd then gives its jobs to the others, where there are any."""
        return not (self._held.host.is_draining and self._held.cluster.presence.others)


async def open_node(loaded: Loaded, *, served: str, log: Log) -> NodeService:
    """Opens the databases and builds the node; nothing fires before `start`.

    Raises StoreError where they cannot be used or a node of this name is running, SettingsError.
    """
    settings = loaded.settings
    folder = Path(settings.store.data)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    shared = await SharedDatabase.open(url=shared_url(settings.database.url, folder))
    clock = SystemClock(skew=shared.clock_skew, on_step=_keep_no_step)
    cluster = await join_cluster(shared, clock, node_id(settings, served), served, log)
    history = await asyncio.to_thread(
        HistoryDatabase, url=history_address(settings, folder), durability=settings.store.durability
    )
    surroundings = msgspec.structs.replace(make_surroundings(settings, served), queues=False)
    compiler = Compiler(
        defaults=settings.defaults, surroundings=surroundings, history_detail=settings.history.detail
    )
    confirmed, outbox = _Confirmed(), Outbox()
    writer = open_writer(confirmed, history, log)
    cleaner = make_cleanup(settings, DestroyedInCluster(database=shared), writer, clock)
    services = ServiceRegistry(database=history, settings=settings.services, clock=clock, tenant=TENANT)
    directory = InvocationDirectory(known=services.directory, http_port=settings.dapr.http_port)
    services.fall_back_to(directory.address)
    system = system_functions(cleaner, outbox, services)
    sender = InvocationSender(sender=make_sender(loaded, served, directory=directory, system=system))
    client = SidecarClient(port=settings.dapr.grpc_port)
    host = _make_host(settings, cluster, client, writer, sender, services, clock, compiler, log)
    outbox.notifications, confirmed.store = host.notifications, host.store
    await services.attach(
        deliver=host,
        read_job=host.read,
        catalogue=SharedCatalogue(database=shared),
        definition=host.store.definition,
        compile_text=compiler.stored,
    )
    reads = HistoryReads(database=history, system_jobs=frozenset(NAMES))
    watch = SidecarWatch(http_port=settings.dapr.http_port, clock=clock, log=log)
    held = NodeParts(
        shared, cluster, history, writer, reads, sender, client, watch, host, compiler, clock, services
    )
    return NodeService(
        loaded=loaded, held=held, api=create_api(_api_parts(loaded, held, cleaner, surroundings)), log=log
    )


def _make_host(
    settings: Settings,
    cluster: Cluster,
    client: SidecarClient,
    writer: HistoryWriter,
    sender: InvocationSender,
    services: ServiceRegistry,
    clock: SystemClock,
    compiler: Compiler,
    log: Log,
) -> DaprHost:
    return build_dapr_host(
        DaprParts(
            core=make_core(compiler),
            cluster=cluster,
            sidecar=Sidecar(client=client),
            history=writer,
            sender=sender,
            router=services.router,
            owner_of=services.owner_of,
            clock=clock,
            redact=make_masking(settings).redact_all,
            count=count_missed,
            log=log,
            limits=limits_of(settings),
        )
    )


class _Confirmed:
    """The store that is told what the history has: the writer is there before it."""

    store: ActorStore

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        return self.store.written(keys)


async def _keep_no_step(skew: int) -> None:
    """The steady line is the database's: each start reads anew how far this machine's clock is from it."""


def _api_parts(
    loaded: Loaded, held: NodeParts, cleaner: Cleanup, surroundings: Surroundings
) -> ApiDependencies:
    async def missing() -> Sequence[str]:
        own = [] if held.host.is_ready else ["host"]
        return [*own, *held.watch.missing]

    async def list_nodes() -> Sequence[Mapping[str, object]]:
        now, skew = held.clock.now().steady, held.clock.skew
        return [node_wire(node, now, skew) for node in await held.cluster.nodes.list()]

    return ApiDependencies(
        deliver=held.host,
        create_all=held.host.create_all,
        peek=held.host.peek,
        read_job=held.host.read,
        compile_definition=held.compiler.posted,
        compile_cache=held.compiler.compile_cache,
        surroundings=surroundings,
        catalogue=SharedCatalogue(database=held.shared),
        store=held.host.store,
        history=held.reads,
        outbox=held.host.notifications,
        clean=cleaner,
        clock=held.clock,
        registry=held.services.registry,
        reconcile=held.services.scan,
        drift=held.services.drift,
        admit=admit_of(loaded),
        heartbeat_seconds=loaded.settings.services.heartbeat_seconds,
        flush=held.writer.flush,
        ready=missing,
        nodes=list_nodes,
        version=__version__,
        admin_key=loaded.settings.server.key,
        body_bytes=loaded.settings.limits.body_bytes,
        options=held.compiler.options,
        settings=lambda: {
            name: {"value": value, "source": source} for name, value, source in loaded.effective()
        },
    )
