"""One node of a cluster, over its sidecar and the shared database (`--runtime dapr`)."""

import asyncio
import platform
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Unpack

import msgspec
import uvloop

from scheduler_service import __version__
from scheduler_service.app.actor_listener import create_actor_app
from scheduler_service.app.base_service import RunningService, process_wire, versions_of
from scheduler_service.app.core_settings import make_surroundings
from scheduler_service.app.data_folder import keep_private, known_formats
from scheduler_service.app.egress import make_sender
from scheduler_service.app.lifetime import LAST_ANSWERS_SECONDS, serve, through_hangups
from scheduler_service.app.listener import listen
from scheduler_service.app.process_parts import GivenParts
from scheduler_service.app.process_setup import current_limit, divide, process_log
from scheduler_service.app.service_registry import SharedParts
from scheduler_service.app.store_opening import open_history
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.engine import params_schema  # noqa: F401 - else the first schema's turn would import it
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.actor import register
from scheduler_service.hosts.dapr.cluster_jobs import ClusterJobs
from scheduler_service.hosts.dapr.dapr_host import DaprHost, build_dapr_host
from scheduler_service.hosts.dapr.heartbeat import RUNNING, NodeHeartbeat
from scheduler_service.hosts.dapr.node import Cluster, ClusterView, DaprParts, keep_app_id, node_wire
from scheduler_service.hosts.dapr.node_events import NodeEvents
from scheduler_service.hosts.dapr.sidecar import ActorContexts, Sidecar
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from scheduler_service.hosts.dapr.sidecar_watch import SidecarWatch
from scheduler_service.http_server.server import Server
from scheduler_service.persistence.cluster.cluster_queues import ClusterQueues
from scheduler_service.persistence.cluster.nodes import Nodes, SharedEvents
from scheduler_service.persistence.cluster.shared_registry import SqlRates, SqlSharedRegistry
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.persistence.sql.sqlite import address_of
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import JobStore
from scheduler_service.services.instances import Instances
from scheduler_service.services.queue_watch import DOWNTIME_MS, QueueWatch
from scheduler_service.services.rate_sharing import RateSharing
from scheduler_service.services.shared_registry_view import SharedView
from scheduler_service.settings import LoadedSettings, Settings, SettingsError
from scheduler_service.system_jobs.process_alerts import ClusterSight
from scheduler_service.system_jobs.system_job_definitions import patiently
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.log_summaries import Tally
from scheduler_service.telemetry.metrics.metric_list import Source
from scheduler_service.telemetry.metrics.process_metrics import process_age
from scheduler_service.telemetry.readiness import Readiness
from scheduler_service.transport.service_urls import InvocationDirectory, InvocationSender
from scheduler_service.transport.topic_sender import TopicSender

# That of the API, and that of daprd.
LISTENERS = 2

# daprd keeps its connections for minutes: one that this side closes before would lose a turn.
SIDECAR_KEEP_ALIVE_SECONDS = 600


def run_node(loaded: LoadedSettings) -> None:
    """`punctual serve --runtime dapr`. Raises SettingsError and StoreError where it cannot start."""
    with process_log(loaded.settings) as log:
        serving = serve(loaded, log=log, opening=open_node, listeners=LISTENERS)
        uvloop.run(through_hangups(serving, log=log))


async def open_node(loaded: LoadedSettings, *, served: str, log: Log) -> "NodeService":
    """A node that fires nothing before `start`. Raises SettingsError; StoreError, also if it is running."""
    settings, telemetry = loaded.settings, Telemetry(settings=loaded.settings, log=log)
    if settings.contexts.url not in (None, "dapr", "sql"):
        raise SettingsError(
            'contexts.url is "dapr" or "sql" with --runtime dapr: the jobs of all nodes need it'
        )
    folder = Path(settings.store.data)
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    await asyncio.to_thread(keep_private, folder, telemetry.log)
    shared = await JobDatabase.open(url=shared_url(settings, folder))
    clock = SystemClock(skew=shared.clock_skew, on_step=_ignore_step)
    cluster = await join_cluster(shared, clock, node_id(settings, served), served, telemetry.log)
    node = NodeService(
        loaded,
        served=served,
        surroundings=make_surroundings(loaded, served, topics=True),
        database=await open_history(settings),
        clock=clock,
        telemetry=telemetry,
        shared=shared,
        cluster=cluster,
    )
    await node.attach()
    return node


class NodeService(RunningService):
    """One node of a cluster; the actors have a listener of their own, which only daprd calls."""

    kind = "dapr"
    clock: SystemClock

    def __init__(
        self,
        loaded: LoadedSettings,
        *,
        shared: JobDatabase,
        cluster: Cluster,
        served: str,
        **parts: Unpack[GivenParts],
    ) -> None:
        """`parts` are those of `ProcessParts`."""
        super().__init__(loaded, served=served, **parts)
        dapr = self.settings.dapr
        self.holder = cluster.heartbeat.holder
        self.node_id = self.holder.node
        self._shared = shared
        self._cluster = cluster
        self._client = SidecarClient(http_port=dapr.http_port, grpc_port=dapr.grpc_port, token=dapr.api_token)
        self._watch = SidecarWatch(
            http_port=dapr.http_port, clock=self.clock, log=self.log, token=dapr.api_token
        )
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def commits_waiting(self) -> int:
        """How many commits wait for the shared database."""
        return self._shared.commits_waiting

    async def start(self) -> None:
        """Answers daprd, waits until actors can be used, takes turns. Raises StoreError, SettingsError."""
        self.readiness.watch()
        await self._answer_sidecar()
        await self._watch.wait()
        await keep_app_id(self._cluster.nodes, self._watch.app_id)
        self._watch.start(self.host.report_missing, self.host.active)
        self._events.start()
        self.services.start_sharing()
        await self.host.start()
        await self._begin()
        self.log("ready", node=self.node_id, daprd=self._watch.metadata.get("runtimeVersion"))

    async def list_nodes(self) -> Sequence[Mapping[str, object]]:
        """`GET /nodes`: each node of the cluster as the shared table has it, and more of this one."""
        now, skew = self.clock.now().steady, self.clock.skew
        return [
            {**node_wire(node, now, skew), **(self._describe_own(node) if node.holder == self.holder else {})}
            for node in await self._cluster.nodes.list()
        ]

    def _describe_own(self, node: Node) -> Mapping[str, object]:
        """What this node alone knows of itself: its process, and the versions of what it stands on."""
        daprd = str(self._watch.metadata.get("runtimeVersion") or "unknown")
        return {
            "processes": [process_wire(0, self.status_since(node.started_at), node.state)],
            "versions": versions_of([self.database], {"daprd": daprd}),
            "formats": {"cluster": node.format, "history": known_formats()["history"]},
        }

    async def _answer_sidecar(self) -> None:
        """Begins to serve the actors' routes."""
        settings = self.settings
        listener = listen("127.0.0.1", settings.dapr.app_port)
        await register(self.host, self._client)
        shares = divide(current_limit(), listeners=LISTENERS, connections=settings.limits.connections)
        self._server = Server(
            create_actor_app(self.host, token=settings.dapr.app_token),
            log=self.log,
            most=shares.api,
            head_seconds=settings.limits.head_seconds,
            idle_seconds=SIDECAR_KEEP_ALIVE_SECONDS,
        )
        self.telemetry.show_connections("sidecar", self._server.connections)
        self._serving = asyncio.create_task(self._server.serve([listener]))

    async def _install(self, install_jobs: Callable[[], Awaitable[None]]) -> None:
        await patiently(install_jobs, clock=self.clock, log=self.log)

    async def _stop_jobs(self, grace: int) -> None:
        await self.host.stop(grace)
        await self._events.stop()

    async def _leave(self) -> None:
        await self._watch.stop()
        if self._server is not None and self._serving is not None:
            await self._server.end(self._serving, seconds=LAST_ANSWERS_SECONDS)
        await self._client.close()

    async def _close(self) -> None:
        await self._shared.close()

    @cached_property
    def sender(self) -> InvocationSender:
        """The sender of a node, which reaches services through its sidecar as well."""
        sender = make_sender(
            self.loaded,
            self.served,
            directory=self._directory,
            system=self.system,
            clock=self.clock,
            log=self.log,
            room=self.answer_room,
            signer=self.signer,
            listeners=LISTENERS,
            sidecar=self._directory,
        )
        self.telemetry.show("connections", sender.samples)
        dapr = self.settings.dapr
        topics = TopicSender(sender=sender, http_port=dapr.http_port, token=dapr.api_token)
        return InvocationSender(sender=topics)

    @cached_property
    def host(self) -> DaprHost:
        """Takes the turns of the jobs whose actors live here."""
        sidecar = Sidecar(client=self._client)
        return build_dapr_host(
            DaprParts(
                cluster=self._cluster,
                sidecar=sidecar,
                contexts=ActorContexts(sidecar=sidecar),
                puts_contexts=self.settings.contexts.url != "sql",
                owner_of=self.services.owner_of,
                tend_queues=self.services.tend_queues,
                **msgspec.structs.asdict(self.host_parts),
            )
        )

    @property
    def jobs(self) -> DaprHost:
        """All jobs of the cluster."""
        return self.host

    @property
    def service_store(self) -> JobStore:
        """Where the jobs of all nodes lie: any node answers requests."""
        return self._cluster.store

    @property
    def store(self) -> ClusterJobs:
        """The jobs as turns of this node use them."""
        return self.host.store

    @cached_property
    def readiness(self) -> Readiness:
        """What a node needs; one that stops is not ready, though what it has begun may need its jobs."""
        return Readiness(
            parts={
                "host": lambda: [] if self.host.is_ready and not self.is_stopping else ["host"],
                "sidecar": lambda: self._watch.missing,
                "history": self.telemetry.history_watch.lacks,
            },
            clock=self.clock,
        )

    @cached_property
    def queue_table(self) -> ClusterQueues:
        """The queues of all nodes."""
        return ClusterQueues(database=self._shared, downtime=DOWNTIME_MS)

    def _shared_services(self) -> SharedParts:
        watch = QueueWatch(queues=self.queues, table=self.queue_table, clock=self.clock, log=self.log)
        return {"queue_watch": watch, "share": self._share, "rates": self.shared_rates}

    @cached_property
    def shared_rates(self) -> RateSharing:
        """Over all nodes; the room of services stops it."""
        return RateSharing(
            shared=SqlRates(database=self._shared),
            clock=self.clock,
            holder=f"{self.holder.node} {self.holder.boot}",
            log=self.log,
        )

    def _share(self, instances: Instances) -> SharedView:
        return SharedView(
            shared=SqlSharedRegistry(database=self._shared),
            instances=instances,
            clock=self.clock,
            node=self.node_id,
            others=lambda: self._cluster.heartbeat.others,
            log=self.log,
        )

    @cached_property
    def _directory(self) -> InvocationDirectory:
        dapr = self.settings.dapr
        known = self.services.directory
        directory = InvocationDirectory(known=known, http_port=dapr.http_port, token=dapr.api_token)
        self.services.fall_back_to(directory.base_of)
        return directory

    @cached_property
    def _events(self) -> NodeEvents:
        return NodeEvents(
            shared=SharedEvents(database=self._shared),
            occurrences=self.telemetry.occurrences,
            clock=self.clock,
            node=self.node_id,
            failed=Tally("events_not_shared", log=self.log),
        )

    @cached_property
    def events(self) -> EventFeed:
        """The events of the cluster, at this node."""
        return self.telemetry.feed_events(self._events)

    @property
    def counted(self) -> Mapping[str, Source]:
        """History and state."""
        return {"history": self.writer.samples, "state": self._shared.samples}

    def _seen_of_cluster(self) -> ClusterSight:
        """In a cluster one node looks and says for all, by a lease in the shared database."""
        view = ClusterView(cluster=self._cluster, clock=self.clock)
        return {"leads": view.leads, "find_lost": view.find_lost, "nodes": view.alive}


async def _ignore_step(skew: int) -> None:
    """Steady time is the database's: each start reads anew how far this machine's clock is from it."""


SHARED_FILE = "cluster.db"


async def join_cluster(shared: JobDatabase, clock: SystemClock, name: str, served: str, log: Log) -> Cluster:
    """Registers this node among the others. Raises StoreError."""
    nodes = Nodes(database=shared)
    epoch, now = await nodes.next_epoch(), clock.now()
    node = Node(
        node_id=name,
        boot=str(epoch),
        address=served,
        version=__version__,
        state=RUNNING,
        started_at=now.wall - process_age(),
        seen_at=now.steady,
        jobs_held=0,
        running=0,
        format=MIGRATIONS.head,
    )
    heartbeat = NodeHeartbeat(nodes=nodes, clock=clock, node=node, log=log)
    await heartbeat.enter()
    return Cluster(store=TurnStore(database=shared), nodes=nodes, heartbeat=heartbeat, epoch=epoch)


def shared_url(settings: Settings, folder: Path) -> str:
    """The shared database: the server that the settings name, else a file in the data folder."""
    url = settings.store.url or settings.database.url
    return address_of(folder / SHARED_FILE) if url is None or url.startswith("sqlite") else url


def node_id(settings: Settings, served: str) -> str:
    """`node.id`, or this machine's name and the port that is served."""
    name = settings.node.id or f"{platform.node()}-{served.rpartition(':')[2]}"
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[:64]
