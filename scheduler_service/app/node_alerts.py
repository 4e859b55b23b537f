"""The alerts of a node: in a cluster one node looks and says for all, by a lease in the shared database."""

from collections.abc import Mapping, Sequence

from scheduler_service.app.alerts import Alerts, AlertSurroundings
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import Compiler
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.dapr.liveness import OFF, OFFLINE_AFTER_MS, is_alive
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.persistence.sql.database import Database
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.clock import Clock, Timekeeper
from scheduler_service.ports.cluster import Node
from scheduler_service.settings import Settings

LEASE = "alerts"


class ClusterView:
    """What one node sees of its cluster for the alerts of all. All raise StoreError."""

    def __init__(self, *, cluster: Cluster, clock: Clock) -> None:
        self._nodes = cluster.nodes
        self._holder = cluster.heartbeat.holder
        self._clock = clock

    async def leads(self) -> bool:
        """Whether this node has the lease; it lasts as long as a node without heartbeats does."""
        now = self._clock.now().steady
        return await self._nodes.lease(LEASE, self._holder, now, now + OFFLINE_AFTER_MS)

    async def alive(self) -> Mapping[str, bool]:
        """Each node that has not left, and whether it is alive."""
        now = self._clock.now().steady
        return {node.node_id: is_alive(node, now) for node in await self._present()}

    async def find_lost(self) -> Sequence[Occurrence]:
        """The nodes that are lost now."""
        now = self._clock.now()
        return [
            Occurrence(
                kind=OccurrenceKind.NODE_LOST,
                at=min(now.wall, now.wall - (now.steady - node.seen_at) + OFFLINE_AFTER_MS),
                subject=node.node_id,
                message=f"no heartbeat for {(now.steady - node.seen_at) // 1_000} s",
            )
            for node in await self._present()
            if not is_alive(node, now.steady)
        ]

    async def _present(self) -> Sequence[Node]:
        return [node for node in await self._nodes.list() if node.state != OFF]


def make_node_alerts(
    *,
    settings: Settings,
    cluster: Cluster,
    database: Database,
    clock: Timekeeper,
    host: DaprHost,
    catalogue: Catalogue,
    compiler: Compiler,
    surroundings: Surroundings,
    services: ServiceRegistry,
    telemetry: Telemetry,
) -> Alerts:
    """The alerts of this node."""
    view = ClusterView(cluster=cluster, clock=clock)
    parts = AlertSurroundings(
        database=database,
        deliver=host,
        read_job=host.read,
        catalogue=catalogue,
        compiler=compiler,
        surroundings=surroundings,
        clock=clock,
        occurrences=telemetry.occurrences,
        is_online=services.is_online,
        log=telemetry.log,
        leads=view.leads,
        find_lost=view.find_lost,
        nodes=view.alive,
    )
    return Alerts(settings=settings, parts=parts)
