"""What the components of one node share: its place in the cluster, its sidecar, its jobs; the other nodes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from scheduler_service.domain.moments import SECOND, rfc3339
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.wire import Holder, Token
from scheduler_service.hosts.background_tasks import Tasks, ends_within
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.heartbeat import (
    CUT_OFF,
    OFF,
    OFFLINE_AFTER_MS,
    ActiveActors,
    NodeHeartbeat,
    is_alive,
)
from scheduler_service.hosts.dapr.reminders import ReminderAlarms
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.host_dependencies import HostParts
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.clock import Clock, Timekeeper
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import Contexts

LONGEST_WAIT_MS = SECOND
"""The longest wait of a reply for records that the history cannot take."""


class HistoryWait:
    """Returns when the history has what was recorded here so far, within a second.

    The actor is held meanwhile, so after a wait that failed no other reply waits, until the history writes
    again: alarms and cancels are not queued behind a database that is down. `flush` raises StoreUnavailable.
    """

    def __init__(self, *, flush: Callable[[], Awaitable[None]], clock: Timekeeper, log: Log) -> None:
        self._flush = flush
        self._clock = clock
        self._log = log
        self._tasks = Tasks()
        self._is_behind = False

    async def __call__(self, job_id: str) -> None:
        """Waits, if the history has written what was last asked for. Never raises."""
        if self._is_behind:
            if not len(self._tasks):
                self._tasks.start(self._ask())
            return
        asking = self._tasks.start(self._ask())
        has_ended = await ends_within(LONGEST_WAIT_MS, asking, clock=self._clock)
        error = asking.result() if has_ended else f"nothing was written in {LONGEST_WAIT_MS} ms"
        if error:
            self._is_behind = True
            self._log("history_not_awaited", jobId=job_id, error=error)

    async def _ask(self) -> str:
        """What keeps the history from writing; empty: it has written."""
        try:
            await self._flush()
        except StoreError as error:
            return str(error)
        self._is_behind = False
        return ""


class Cluster(msgspec.Struct, frozen=True):
    """Where nodes meet: the SQL tables, this node's heartbeat, and the number of this start of a node."""

    store: TurnStore
    nodes: Nodes
    heartbeat: NodeHeartbeat
    epoch: int


OwnerOf = Callable[[str, str], Awaitable[str]]
"""The service that declares a job, by its id and uid; empty: none does. Raises StoreUnavailable."""
Tend = Callable[[], Awaitable[None]]


async def no_owner(job_id: str, uid: str) -> str:
    """For nodes without declared jobs."""
    return ""


async def tend_nothing() -> None:
    """Where nothing else is to be looked after."""


class DaprParts(HostParts, frozen=True, kw_only=True):
    """What a dapr host is built from, and what every component of it uses.

    `owner_of` is the service that a restored job belongs to. `contexts` has the contexts of qos 1; None: the
    rows of their jobs. `tend_queues` is called once a second, at one node at a time.
    """

    cluster: Cluster
    sidecar: Sidecar
    owner_of: OwnerOf = no_owner
    contexts: Contexts | None = None
    puts_contexts: bool = True
    tend_queues: Tend = tend_nothing

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
