"""How a decided turn becomes what the job is: arm, commit, act; act, then arm, where nothing is durable."""

from collections.abc import Awaitable

from scheduler_service.domain.events import CallEnded, Event, FeedbackArrived, PartEnded, PartProgressed
from scheduler_service.domain.moments import Now
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.wire import Answer, Holder
from scheduler_service.engine import status
from scheduler_service.engine.decision import SMALL_BYTES, Job
from scheduler_service.hosts.begun_mark import BegunMark
from scheduler_service.hosts.clock import WaitUntil, is_past
from scheduler_service.hosts.commit_builder import CommitBuilder, DecidedTurn, is_stored
from scheduler_service.hosts.host_parts import Act, Alarms, TurnParts
from scheduler_service.hosts.job_cache import CachedJob, PendingCommit
from scheduler_service.hosts.job_loading import ProgramCache
from scheduler_service.pacing.room import Place
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import NOTHING, StateStore

REPORTS = (FeedbackArrived, PartEnded, PartProgressed)
"""Events whose bodies a context may keep, as it does answers."""
UNREPORTED_DELAY_MS = 2
"""By so much an early turn may be released late without correcting its records."""


class TurnWriting:
    """Makes the turns that `commits` has built durable, and applies them to the jobs in memory.

    `act` starts effects; `wait_until` waits for a steady moment. `programs` keeps the definitions of jobs.
    """

    def __init__(
        self,
        parts: TurnParts,
        *,
        store: StateStore,
        alarms: Alarms,
        act: Act,
        wait_until: WaitUntil,
        programs: ProgramCache,
        commits: CommitBuilder,
        holder: Holder,
        begun: BegunMark,
    ) -> None:
        self._history = parts.history
        self._clock = parts.clock
        self._observe_job = parts.observe_job
        self._store = store
        self._alarms = alarms
        self._act = act
        self._wait_until = wait_until
        self._programs = programs
        self._commits = commits
        self._holder = holder
        self._begun = begun

    async def expect(self, cached: CachedJob, pending: PendingCommit) -> None:
        """Just before the commit: the alarm comes first, and until the store has answered nobody knows."""
        await self._alarms.expect(cached.job_id, pending.commit.due)
        cached.doubt = pending

    async def settle(self, cached: CachedJob, pending: PendingCommit, error: StoreError | None) -> None:
        """What the store said of the commit. The early alarm stays when it failed: it only makes us look."""
        if error is None:
            await self._finish(cached, pending)
            return
        if pending.commit.expected == NOTHING and not isinstance(error, StoreUncertain):
            cached.forget()
            return
        if isinstance(error, StoreUnavailable):
            cached.doubt = None
        self._alarms.again(cached.job_id)

    async def commit(self, cached: CachedJob, pending: PendingCommit, place: Place | None) -> None:
        """Arms, commits, acts. `place` is left once the turn is durable. Raises StoreError."""
        await self.expect(cached, pending)
        cached.is_committing = True
        try:
            try:
                await self._store.commit(pending.commit)
            except StoreError as error:
                await self.settle(cached, pending, error)
                raise
            if place is not None:
                place.leave()
            if pending.until is None:
                await self._finish(cached, pending)
            else:
                await self._finish_in_time(cached, pending)
        finally:
            cached.is_committing = False

    async def resolve(self, cached: CachedJob, doubt: PendingCommit) -> None:
        """Asks the store whether it has the turn of which it did not say so."""
        stored = await self._store.load(cached.job_id)
        if is_stored(stored, doubt.commit):
            await self._finish_in_time(cached, doubt)
        elif (0 if stored is None or stored.document is None else stored.sequence) == cached.committed:
            cached.doubt = None
        else:
            cached.forget()

    def go_on(
        self, cached: CachedJob, turn: DecidedTurn, batch: Batch | None, event: Event
    ) -> Awaitable[None] | None:
        """A turn of qos 0 that changed nothing durable acts at once. Returns what sets its alarm, if any."""
        cached.document = turn.decision.document
        due = status.due(Job(cached.document, cached.programs, self._holder))
        # An answer leaves the alarm where it is set, unless it changes when that has to ring.
        is_set = due == cached.due and isinstance(event, CallEnded)
        cached.due = due
        if batch is not None:
            self._history.append(batch, durable=False)
        if type(event) is CallEnded:
            outcome = event.outcome
            if type(outcome) is Answer and len(outcome.body) > SMALL_BYTES:
                cached.keeps_much = True
        elif isinstance(event, REPORTS):
            cached.keeps_much = True  # perhaps
        if turn.decision.effects:
            self._act(cached.job_id, turn.decision.effects, cached.programs)
        return None if is_set else self._set_alarm(cached)

    async def look_again(self, cached: CachedJob, now: Now) -> None:
        """A ring that changed nothing used up the alarm: it is set again, but never so that it spins."""
        if is_past(cached.due, now):
            self._alarms.again(cached.job_id)
        else:
            await self._set_alarm(cached)

    async def _finish_in_time(self, cached: CachedJob, pending: PendingCommit) -> None:
        """`_finish`, not ahead of its moment; what begins late begins then, with all of its time."""
        until = pending.until
        if until is not None:
            await self._wait_until(until.steady)
            late = self._clock.now().steady - until.steady
            if late > UNREPORTED_DELAY_MS:
                pending = self._commits.delay(pending, late)
            begins = until.wall + late if late > 0 else until.wall
            if begins > self._begun.moment:
                self._begun.raise_to(begins)
        await self._finish(cached, pending)

    async def _finish(self, cached: CachedJob, pending: PendingCommit) -> None:
        """The store has the turn: it is what the job is now, and its effects may start."""
        commit = pending.commit
        before = cached.entry
        cached.doubt = None
        cached.document = pending.decision.document
        cached.programs = pending.programs
        cached.committed = commit.sequence if cached.document is not None else 0
        cached.entry = commit.entry
        cached.durable_due = commit.due
        cached.state_bytes = 0 if commit.document is None else len(commit.document)
        cached.due = commit.due if pending.due is None else pending.due
        if commit.definition is not None:
            uid, revision = commit.entry.uid, commit.entry.revision
            programs = cached.programs
            known = self._programs
            weight = known.keep(uid, revision, programs[revision], commit.definition, pending.weight)
            cached.program_bytes = weight if len(programs) == 1 else known.weight(uid, programs)
        if commit.batch is not None:
            self._history.append(commit.batch, durable=True)
        self._observe_job(before, commit.entry)
        if pending.decision.effects:
            begun = self._begun
            for record in pending.decision.records:
                # no call for each record: this is on the way of every execution
                if record.__class__ is ExecutionRecord and (record.started_at or 0) > begun.moment:
                    begun.raise_to(record.started_at or 0)
            self._act(cached.job_id, pending.decision.effects, cached.programs)
        await self._set_alarm(cached)

    def _set_alarm(self, cached: CachedJob) -> Awaitable[None]:
        """Returns what sets it: no coroutine of its own, since each turn sets its alarm."""
        if cached.due == cached.durable_due:
            return self._alarms.arm(cached.job_id, cached.due)
        return self._alarms.hold(cached.job_id, cached.due)
