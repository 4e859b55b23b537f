"""One running node of a cluster: what it consists of, its API and its figures, its start and its stop."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from scheduler_service.api.application import create_api
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.app.actor_listener import create_actor_app
from scheduler_service.app.alerts import Alerts, AlertSurroundings
from scheduler_service.app.builders import common_of_apis
from scheduler_service.app.cluster_join import ClusterView, keep_app_id, node_wire
from scheduler_service.app.data_folder import format_of
from scheduler_service.app.listener import listen
from scheduler_service.app.metrics import ShownParts, make_exposition
from scheduler_service.app.node_figures import describe_parts, own_status, process_wire, versions_of
from scheduler_service.app.own_process import current_limit, divide
from scheduler_service.app.readiness import Readiness
from scheduler_service.app.review import Review, basis_of
from scheduler_service.app.server import LAST_ANSWERS_SECONDS
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import Compiler
from scheduler_service.app.system_jobs import install_patiently
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.console.application import console_mounts
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.cleanup import Cleanup, TrialRounds
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.actor import register
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.hosts.dapr.node_events import NodeEvents
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from scheduler_service.hosts.dapr.sidecar_watch import SidecarWatch
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.http_server.server import Server
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.sql_cluster.catalogue import SharedCatalogue
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.log import Log
from scheduler_service.settings import Loaded
from scheduler_service.telemetry.metrics.exposition import Exposition
from scheduler_service.transport.service_urls import InvocationSender

# That of the API, and that of daprd.
LISTENERS = 2

# daprd keeps its connections for minutes: one that this side closes before would lose a turn.
SIDECAR_KEEP_ALIVE_SECONDS = 600


class NodeParts(msgspec.Struct, frozen=True):
    """What a node has open, and what is built on it."""

    shared: SharedDatabase
    catalogue: SharedCatalogue
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
    cleaner: Cleanup
    surroundings: Surroundings
    telemetry: Telemetry
    events: NodeEvents

    async def flush(self, job_id: str | None = None) -> None:
        """Returns when what the history was given is in it. Raises StoreUnavailable."""
        await self.writer.flush()

    async def close(self) -> None:
        """Closes all, after the host has stopped."""
        await self.client.close()
        await self.sender.close()
        await self.reads.close()
        await self.services.close()
        self.database.close()
        await self.shared.close()
        self.telemetry.close()


class NodeService:
    """One running node: `api` is its ASGI application; the actors have a listener of their own."""

    def __init__(self, *, loaded: Loaded, parts: NodeParts, log: Log) -> None:
        self._is_stopping = False
        self._loaded = loaded
        self._parts = parts
        self._log = log
        self._readiness = self._make_readiness()
        self._alerts = self._make_alerts()
        self._review = Review(
            settings=loaded.settings,
            basis=basis_of(parts.surroundings, loaded.settings),
            catalogue=parts.catalogue,
            deliver=parts.host,
            compiler=parts.compiler,
            log=log,
        )
        self._api_parts = self._make_api_parts()
        self.api = create_api(self._api_parts, mounts=console_mounts())
        self._trial_rounds = TrialRounds(trials=parts.cleaner.trials, clock=parts.clock, log=log)
        self.telemetry = parts.telemetry
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
        self._server = Server(
            create_actor_app(host, token=settings.dapr.app_token),
            log=self._log,
            most=shares.api,
            head_seconds=settings.limits.head_seconds,
            idle_seconds=SIDECAR_KEEP_ALIVE_SECONDS,
        )
        self.telemetry.show_connections("sidecar", self._server.connections)
        self._serving = asyncio.create_task(self._server.serve([listener]))
        await watch.wait()
        await keep_app_id(parts.cluster.nodes, watch.app_id)
        watch.start(host.report_missing, host.active)
        parts.events.start()
        parts.services.start_sharing()
        await host.start()
        await parts.services.start_queues(host)
        noted = await self._review.read_noted()
        await install_patiently(host, parts.compiler, settings, noted, clock=parts.clock, log=self._log)
        await self._review.start(noted)
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

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything (SPEC section 14)."""
        parts, self._is_stopping = self._parts, True
        self._log("draining", graceMs=grace, running=parts.host.running)
        parts.services.stop_claims()
        began = parts.clock.now().steady
        await asyncio.gather(self._alerts.stop(), self._review.stop(), self._api_parts.operations.stop(grace))
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

    async def list_nodes(self) -> Sequence[Mapping[str, object]]:
        """`GET /nodes`: each node of the cluster as the shared table has it, and more of this one."""
        parts = self._parts
        now, skew = parts.clock.now().steady, parts.clock.skew
        own = parts.cluster.heartbeat.holder
        return [
            {**node_wire(node, now, skew), **(self._describe_own(node) if node.holder == own else {})}
            for node in await parts.cluster.nodes.list()
        ]

    def _describe_own(self, node: Node) -> Mapping[str, object]:
        """What this node alone knows of itself: its process, and the versions of what it stands on."""
        parts = self._parts
        status = own_status(
            held=parts.host.jobs_held,
            running=parts.host.running,
            started_at=node.started_at,
            standstills=parts.telemetry.standstills,
        )
        daprd = str(parts.watch.metadata.get("runtimeVersion") or "unknown")
        return {
            "processes": [process_wire(0, status, node.state)],
            "versions": versions_of([parts.database], {"daprd": daprd}),
            "formats": {"cluster": node.format, "history": format_of("history")},
        }

    def _make_readiness(self) -> Readiness:
        """What a node needs; one that stops is not ready, though what it has begun may need its jobs."""
        parts = self._parts
        return Readiness(
            parts={
                "host": lambda: [] if parts.host.is_ready and not self._is_stopping else ["host"],
                "sidecar": lambda: parts.watch.missing,
                "history": parts.telemetry.history_watch.lacks,
            },
            clock=parts.clock,
        )

    def _make_alerts(self) -> Alerts:
        """In a cluster one node looks and says for all, by a lease in the shared database."""
        parts = self._parts
        view = ClusterView(cluster=parts.cluster, clock=parts.clock)
        given = AlertSurroundings(
            database=parts.database,
            deliver=parts.host,
            read_job=parts.host.read,
            catalogue=parts.catalogue,
            compiler=parts.compiler,
            surroundings=parts.surroundings,
            clock=parts.clock,
            occurrences=parts.telemetry.occurrences,
            is_online=parts.services.is_online,
            log=parts.telemetry.log,
            leads=view.leads,
            find_lost=view.find_lost,
            nodes=view.alive,
        )
        return Alerts(settings=self._loaded.settings, parts=given)

    def _make_api_parts(self) -> ApiDependencies:
        parts, host = self._parts, self._parts.host
        return ApiDependencies(
            **common_of_apis(
                self._loaded,
                compiler=parts.compiler,
                services=parts.services,
                cleaner=parts.cleaner,
                readiness=self._readiness,
                review=self._review,
            ),
            deliver=host,
            create_all=host.create_all,
            peek=host.peek,
            read_job=host.read,
            flush=parts.flush,
            catalogue=parts.catalogue,
            store=host.store,
            outbox=host.notifications,
            queues=parts.services.queues,
            surroundings=parts.surroundings,
            operations=Operations(
                store=host.store, clock=parts.clock, holder=parts.cluster.heartbeat.holder, log=self._log
            ),
            history=parts.reads,
            nodes=self.list_nodes,
            standstills=parts.telemetry.standstills,
            events=parts.telemetry.feed_events(parts.events),
            metrics=self._make_exposition(),
            alerts=self._alerts,
            clock=parts.clock,
            log=self._log,
        )

    def _make_exposition(self) -> Exposition | None:
        parts = self._parts
        shown = ShownParts(
            host=parts.host,
            counted={"history": parts.writer.samples, "state": parts.shared.samples},
            catalogue=parts.catalogue,
            deliveries=parts.host.store,
            queues=parts.services.queues,
            instances=parts.services.registry.instances,
            pauses=parts.services.registry.pauses,
            clock=parts.clock,
            nodes=self.list_nodes,
            node=parts.cluster.heartbeat.holder.node,
            kind="dapr",
        )
        return make_exposition(parts.telemetry.metrics, shown)
