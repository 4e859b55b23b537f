"""The embedded host: how it is built, its start, its stop, and the ways to its jobs."""

import asyncio
from collections.abc import Sequence

from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import Created
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.background_tasks import STARTING, STOPPING, Tasks, close_history, wait_for_rest
from scheduler_service.hosts.begun_executions import BegunMark
from scheduler_service.hosts.calls_in_flight import OpenSendGuard
from scheduler_service.hosts.clock import TimedRelease
from scheduler_service.hosts.creation import Creation
from scheduler_service.hosts.effect_handlers import EffectHandlers
from scheduler_service.hosts.embedded.alarms import EmbeddedAlarms
from scheduler_service.hosts.embedded.early_commit import EarlyCommit
from scheduler_service.hosts.embedded.local_turns import EmbeddedTurns
from scheduler_service.hosts.embedded.unfinished import Recovery
from scheduler_service.hosts.event_redelivery import AnswerLine, Redelivery
from scheduler_service.hosts.host import Host
from scheduler_service.hosts.host_dependencies import HostLimits, HostParts
from scheduler_service.hosts.job_cache import JobCache, OpenBytes
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError, StoreStopping
from scheduler_service.ports.state import OwnedStore


class EmbeddedHost(Host):
    """Delivers events to the jobs of one store; implements `ports.Deliver`."""

    _waking: asyncio.Task[None] | None = None

    def __init__(
        self,
        parts: HostParts,
        *,
        store: OwnedStore,
        turns: EmbeddedTurns,
        creation: Creation,
        jobs: JobCache,
        alarms: EmbeddedAlarms,
        effects: EffectHandlers,
        recovery: Recovery,
        release: TimedRelease,
    ) -> None:
        super().__init__(parts, jobs=jobs, creation=creation, effects=effects, tasks=Tasks())
        self._store = store
        self._turns = turns
        self._alarms = alarms
        self._recovery = recovery
        self._release = release

    async def __call__(self, job_id: str, command: Command) -> Reply:
        """Takes one turn and returns its reply after its commit. Raises StoreError: nothing was done.

        A turn that has begun is completed, also when the caller is cancelled.
        """
        if self._is_draining and isinstance(command.event, STARTING):
            raise StoreStopping(STOPPING)
        if isinstance(command.event, Created):
            return await self._to_its_end(self._creation.create(command))
        return await self._to_its_end(self._turns.take(job_id, command))

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, their writes as one group."""
        if self._is_draining:
            return [StoreStopping(STOPPING)] * len(definitions)
        return await super().create_all(definitions, owner)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's line as its latest commit left it, where memory has it; else ask the catalogue."""
        locked = self._jobs.find(job_id)
        return None if locked is None else locked.cached.entry

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn that was answered, contexts of qos 0 as well. Raises StoreError."""
        return await self._turns.read(job_id)

    async def start(self) -> None:
        """Sends again what was in flight, rings, and does the rest behind it. Raises StoreUnavailable."""
        await self._recovery.run()
        await self._alarms.start()
        self._is_ready = True
        self._waking = asyncio.create_task(self._recovery.run_rest())

    async def stop(self, grace: int) -> None:
        """Drains, for at most `grace` ms, then closes history and store (SPEC section 14).

        No firing is taken any more; what runs may end. What is open after that is left in the store: with
        qos 1 it goes on after the next start, with qos 0 it is lost then.
        """
        end = self._clock.now().steady + grace
        self._is_ready = False
        self._is_draining = True
        await self._stop_waking()
        self.notifications.end_hold()
        self._turns.drain()
        self._alarms.drain()
        await wait_for_rest(self._is_at_work, clock=self._clock, end=end)
        await self._alarms.stop()
        await self.effects.stop()
        await self._tasks.wait_for_all()
        self._turns.flush_log()
        await close_history(self._history, self._log, clock=self._clock, until=end)
        await self._store.close()

    def is_settled(self, *, open_calls: int = 0) -> bool:
        """Whether nothing goes on before the clock moves or one of `open_calls` requests is answered.

        For tests, which move the clock only then.
        """
        effects = self.effects
        calls = len(effects.calls) + effects.calls.informing
        is_sending = calls + (not effects.notifications.is_idle) > open_calls
        is_waking = self._waking is not None and not self._waking.done()
        is_busy = len(self._tasks) > 0 or is_sending or is_waking
        return not is_busy and self._alarms.is_settled(len(self._release))

    def abort(self) -> None:
        """Cancels rings and calls where they are, as the death of the process does: for tests."""
        self._alarms.abort()
        self.effects.calls.abort()

    async def _stop_waking(self) -> None:
        """Jobs that were not woken are left to the next start."""
        if self._waking is not None:
            self._waking.cancel()
            await asyncio.gather(self._waking, return_exceptions=True)

    def _is_at_work(self) -> bool:
        turns = self._alarms.is_ringing or len(self._tasks) > 0
        return turns or self._jobs.live > 0 or not self.effects.is_idle


class EmbeddedParts(HostParts, frozen=True, kw_only=True):
    """What an embedded host is made of. `boot` numbers the starts of the store's process."""

    store: OwnedStore
    holder: Holder
    boot: int
    begun: BegunMark | None = None


def build_embedded_host(parts: EmbeddedParts) -> EmbeddedHost:
    """The host of one store; it neither rings nor recovers before `start`.

    Turns set alarms and start effects, which both bring new events to turns: the lambdas close the circle.
    """
    store, clock, limits = parts.store, parts.clock, parts.limits
    open_bytes = OpenBytes(most=limits.open_bytes)
    jobs = JobCache(most=limits.hot, most_bytes=limits.hot_bytes, open_bytes=open_bytes)
    release, line = TimedRelease(clock=clock), AnswerLine(clock=clock)
    redelivery = Redelivery(
        take=lambda job_id, command: turns.take(job_id, command), clock=clock, lease=limits.lease, line=line
    )
    effects = _effects_of(parts, redelivery)
    alarms = EmbeddedAlarms(
        store=store,
        clock=clock,
        ring=lambda job_id, moment: turns.ring(job_id, moment),
        log=parts.log,
        prefetch=lambda job_ids: turns.prefetch(job_ids),
        ready=limits.ready,
        early_commit=_early_commit_of(limits),
        release=release,
    )
    turn = Turn(
        parts,
        store=store,
        holder=parts.holder,
        boot=parts.boot,
        begun=parts.begun,
        alarms=alarms,
        act=effects.act,
        alive=effects.calls.alive,
        wait_until=release.wait_until,
        open_bytes=open_bytes,
        lacks_room=effects.notifications.lacks_room,
    )
    turns = EmbeddedTurns(
        jobs=jobs, turn=turn, alarms=alarms, history=parts.history, clock=clock, log=parts.log
    )
    return EmbeddedHost(
        parts,
        store=store,
        turns=turns,
        creation=Creation(jobs=jobs, turn=turn, commit_all=store.commit_all, take=turns.take),
        jobs=jobs,
        alarms=alarms,
        effects=effects,
        recovery=_recovery_of(parts, effects, turns, line),
        release=release,
    )


def _effects_of(parts: EmbeddedParts, redelivery: Redelivery) -> EffectHandlers:
    return EffectHandlers(
        parts,
        store=parts.store,
        send_guard=OpenSendGuard(),
        redelivery=redelivery,
        holder=parts.holder,
        most_body_bytes=parts.limits.body_bytes,
    )


def _recovery_of(
    parts: EmbeddedParts, effects: EffectHandlers, turns: EmbeddedTurns, line: AnswerLine
) -> Recovery:
    return Recovery(
        store=parts.store,
        history=parts.history,
        notifications=effects.notifications,
        wake=turns.wake,
        clock=parts.clock,
        log=parts.log,
        holding=line.held,
    )


def _early_commit_of(limits: HostLimits) -> EarlyCommit:
    return EarlyCommit(usual=limits.early_commit, longest=limits.burst_lead, batch_window=limits.batch_window)
