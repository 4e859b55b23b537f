"""What the components of one node share: its place in the cluster, its sidecar, its jobs."""

from collections.abc import Callable

import msgspec

from scheduler_service.domain.wire import Holder, Token
from scheduler_service.hosts.dapr.active_actors import ActiveActors
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.hosts.dapr.reminders import ReminderAlarms
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.cluster import ClusterNodes, ClusterStore
from scheduler_service.ports.log import Log


class Cluster(msgspec.Struct, frozen=True):
    """Where nodes meet: the SQL tables, this node's heartbeat, and the number of this start of a node."""

    store: ClusterStore
    nodes: ClusterNodes
    heartbeat: NodeHeartbeat
    epoch: int


class NodeContext(msgspec.Struct, frozen=True, kw_only=True):
    """What every component of a node uses."""

    cluster: Cluster
    sidecar: Sidecar
    clock: Timekeeper
    log: Log

    @property
    def holder(self) -> Holder:
        """This node and this start of its process."""
        return self.cluster.heartbeat.holder

    def others(self) -> frozenset[Holder]:
        """The other nodes that are alive."""
        return self.cluster.heartbeat.others

    def stopping(self) -> frozenset[Holder]:
        """Those of them that give their jobs away."""
        return self.cluster.heartbeat.stopping


class LocalJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs whose actors live in this process.

    `own_calls` are the calls of a life in flight from here, `end_watches` ends its watches of instances.
    """

    cache: JobCache
    alarms: ReminderAlarms
    handovers: Handovers
    own_calls: Callable[[str], tuple[Token, ...]]
    end_watches: Callable[[str], None]
    active: ActiveActors

    def calls_in_flight(self, uid: str) -> tuple[Token, ...]:
        """The calls of a life that are in flight from this node, or from one that handed the job over."""
        return (*self.own_calls(uid), *self.handovers.calls_elsewhere(uid))
