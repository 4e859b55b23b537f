"""What a node of a cluster consists of, and what is said of it."""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler_service.app.cluster_join import node_wire
from scheduler_service.app.data_folder import format_of
from scheduler_service.app.node_figures import own_status, process_wire, versions_of
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import Compiler
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.cleanup import Cleanup
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.hosts.dapr.node_events import NodeEvents
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from scheduler_service.hosts.dapr.sidecar_watch import SidecarWatch
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.sql_cluster.catalogue import SharedCatalogue
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.ports.cluster import Node
from scheduler_service.transport.service_urls import InvocationSender


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

    async def close(self) -> None:
        """Closes all, after the host has stopped."""
        await self.client.close()
        await self.sender.close()
        await self.reads.close()
        await self.services.close()
        self.database.close()
        await self.shared.close()
        self.telemetry.close()


async def list_nodes(parts: NodeParts) -> Sequence[Mapping[str, object]]:
    """`GET /nodes`: each node of the cluster as the shared table has it, and more of this one."""
    now, skew = parts.clock.now().steady, parts.clock.skew
    own = parts.cluster.heartbeat.holder
    return [
        {**node_wire(node, now, skew), **(_describe_own(parts, node) if node.holder == own else {})}
        for node in await parts.cluster.nodes.list()
    ]


def _describe_own(parts: NodeParts, node: Node) -> Mapping[str, object]:
    """What this node alone knows of itself: its process, and the versions of what it stands on."""
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
