"""One running node of a cluster: started and stopped."""

import asyncio
from collections.abc import Iterable, Mapping

from scheduler_service.api.application import create_api
from scheduler_service.app.actor_listener import create_actor_app
from scheduler_service.app.cluster_join import keep_app_id
from scheduler_service.app.listener import listen
from scheduler_service.app.node_alerts import make_node_alerts
from scheduler_service.app.node_api import make_node_api, make_readiness
from scheduler_service.app.node_figures import describe_parts
from scheduler_service.app.node_parts import NodeParts
from scheduler_service.app.own_process import current_limit, divide
from scheduler_service.app.review import Review, basis_of
from scheduler_service.app.server import LAST_ANSWERS_SECONDS
from scheduler_service.app.system_jobs import install_patiently
from scheduler_service.console.application import console_mounts
from scheduler_service.hosts.cleanup import TrialRounds
from scheduler_service.hosts.dapr.actor import register
from scheduler_service.http_server.server import Server
from scheduler_service.ports.log import Log
from scheduler_service.settings import Loaded

# That of the API, and that of daprd.
LISTENERS = 2

# daprd keeps its connections for minutes: one that this side closes before would lose a turn.
SIDECAR_KEEP_ALIVE_SECONDS = 600


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
            surroundings=parts.surroundings,
            services=parts.services,
            telemetry=parts.telemetry,
        )
        self._review = Review(
            settings=loaded.settings,
            basis=basis_of(parts.surroundings, loaded.settings),
            catalogue=parts.catalogue,
            deliver=parts.host,
            compiler=parts.compiler,
            log=log,
        )
        self._api_parts = make_node_api(loaded, parts, self._readiness, self._alerts, self._review, log)
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
