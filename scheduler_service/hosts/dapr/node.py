"""What the components of one node share: its place in the cluster, its sidecar, its jobs."""

from collections.abc import Awaitable, Callable

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Holder, Token
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.heartbeat import ActiveActors, NodeHeartbeat
from scheduler_service.hosts.dapr.reminders import ReminderAlarms
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.host_parts import HostParts
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.tasks import Tasks, ends_within
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreError
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
