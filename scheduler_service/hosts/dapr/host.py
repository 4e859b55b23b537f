"""The dapr host: turns run in this process for the jobs whose actors live here."""

import asyncio
from collections.abc import Sequence

from scheduler_service.domain.replies import Reply
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.actor_store import ActorStore
from scheduler_service.hosts.dapr.deactivation import Deactivation
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.heartbeat import DRAINING, NodeHeartbeat
from scheduler_service.hosts.dapr.reminders import ReminderAlarms
from scheduler_service.hosts.dapr.send_guard import NodeSendGuard
from scheduler_service.hosts.dapr.sweep import Sweep
from scheduler_service.hosts.dapr.turns import ClusterTurns
from scheduler_service.hosts.draining import close_history, wait_for_rest
from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log


class DaprHost:
    """One node: what it asks of jobs goes to wherever they live, what is asked of its own is done here.

    It implements `ports.Deliver` outward, and `hosts.dapr.actor.Turns` for the sidecar.
    """

    _is_ready = False
    _is_draining = False

    def __init__(
        self,
        *,
        reach: ActorClient,
        turns: ClusterTurns,
        leaving: Deactivation,
        jobs: JobCache,
        handovers: Handovers,
        store: ActorStore,
        alarms: ReminderAlarms,
        effects: EffectHandlers,
        send_guard: NodeSendGuard,
        sweeper: Sweep,
        presence: NodeHeartbeat,
        history: History,
        clock: Timekeeper,
        tasks: Tasks,
        log: Log,
    ) -> None:
        self._reach = reach
        self._turns = turns
        self._leaving = leaving
        self._jobs = jobs
        self._handovers = handovers
        self._send_guard = send_guard
        self._presence = presence
        self._history = history
        self._clock = clock
        self._tasks = tasks
        self._log = log
        self.store = store
        self.alarms = alarms
        self.effects = effects
        self.notifications = effects.notifications
        self.sweeper = sweeper

    async def __call__(self, job_id: str, command: Command) -> Reply:
        """Takes `event` to the job. Raises StoreError; what is kept under a key is the reply as JSON."""
        return await self._reach(job_id, command)

    async def create_all(self, definitions: Sequence[Definition]) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, an error for its reply; those of one job in order."""
        return await self._reach.create_all(definitions)

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        return await self._reach.read(job_id)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """Nothing: another node may know better, so the catalogue is asked."""
        return None

    @property
    def is_ready(self) -> bool:
        """Whether the host takes turns."""
        return self._is_ready

    @property
    def is_draining(self) -> bool:
        """Whether the node is stopping."""
        return self._is_draining

    @property
    def jobs_held(self) -> int:
        """How many jobs are in memory."""
        return len(self._jobs)

    @property
    def running(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return self._jobs.live

    async def start(self) -> None:
        """Begins to beat, to sweep and to take turns."""
        self._presence.start(
            figures=lambda: (self.jobs_held, self.running),
            on_standstill=self.store.doubt,
            on_look=self._look_after_flights,
        )
        self.sweeper.start()
        self._is_ready = True

    async def take(self, job_id: str, message: bytes) -> bytes:
        """Takes the turn that a message asks for, to its end, whoever stops waiting. Never raises."""
        return await asyncio.shield(self._tasks.start(self._turns.take(job_id, message)))

    async def remind(self, job_id: str) -> None:
        """The job's reminder rang. Raises StoreUnavailable while the node stops: another one is asked."""
        self.alarms.rang(job_id)
        if self._is_draining and not self._jobs.is_live(job_id):
            raise StoreUnavailable("this node is stopping; ask again in a moment")
        await asyncio.shield(self._tasks.start(self._turns.look(job_id)))

    async def let_go(self, job_id: str) -> None:
        """The job leaves this process: what only memory knows of it follows it. Never raises."""
        await self._leaving.let_go(job_id)

    def doubt(self) -> None:
        """daprd began anew: what is cached is looked at before it is used."""
        self.store.doubt()

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms: hands what runs to the other nodes, or lets it end
        (SPEC section 14)."""
        self._is_ready = False
        self._is_draining = True
        self._turns.stop_starting()
        await self._presence.say(DRAINING)
        await wait_for_rest(self._is_at_work, clock=self._clock, grace=grace)
        await self.sweeper.stop()
        await self.alarms.stop()
        await self.effects.stop()
        await self._send_guard.stop()
        await self._tasks.wait_for_all()
        await self._presence.stop()
        await close_history(self._history, self._log)

    def _is_at_work(self) -> bool:
        turns = self.alarms.is_ringing or len(self._tasks) + len(self._send_guard) > 0
        return turns or self._jobs.live > 0 or not self.effects.is_idle

    def _look_after_flights(self) -> None:
        """Jobs whose calls flew on a node that has died look at once."""
        for job_id in self._handovers.broken_off():
            self._tasks.start(self.alarms.ring(job_id))
