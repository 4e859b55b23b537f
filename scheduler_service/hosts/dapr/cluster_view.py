"""What one node sees of the nodes of its cluster: as JSON, and for the alerts of all."""

from collections.abc import Mapping, Sequence

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.hosts.dapr.heartbeat import CUT_OFF, OFF, OFFLINE_AFTER_MS, is_alive
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.errors import StoreUnavailable

LEASE = "alerts"


def node_wire(node: Node, now: int, skew: int) -> Mapping[str, object]:
    """A node as JSON, at `now` (steady ms): without a heartbeat for 10 s it is offline."""
    return {
        "nodeId": node.node_id,
        "address": node.address,
        "version": node.version,
        "state": node.state if is_alive(node, now) or node.state == CUT_OFF else OFF,
        "startedAt": rfc3339(node.started_at),
        "lastHeartbeat": rfc3339(node.seen_at + skew),
        "jobsHeld": node.jobs_held,
        "running": node.running,
        "processes": [],
        "versions": {"punctual": node.version},
        "formats": {"cluster": node.format} if node.format else {},
    }


async def keep_app_id(nodes: Nodes, app_id: str) -> None:
    """Reminders and contexts lie under it. Raises StoreUnavailable where daprd runs under another one."""
    known = await nodes.keep_app_id(app_id)
    if known != app_id:
        raise StoreUnavailable(
            f"the jobs' reminders and contexts lie under the app id {known!r}, and this daprd runs as "
            f"{app_id!r}: start daprd with --app-id {known}"
        )


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
