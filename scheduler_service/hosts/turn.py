"""The turn. Decision 118 has every order in which a process may die on the way.

```text
load ─► decide ─► durable:    set the alarm ─► store.commit: put contexts that lie apart, claim ─► effects
            └───► in memory:  effects ─► set the alarm    (qos 0: neither a begin nor an end of an execution)
```
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import Now
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.replies import ReachedLimit, Recalled, Refusal, Reply
from scheduler_service.domain.turn_events import (
    BEGINNING,
    AlarmRang,
    CallEnded,
    Event,
    FeedbackArrived,
    PartEnded,
    PartProgressed,
    Resumed,
    Triggered,
)
from scheduler_service.domain.wire import Answer, Holder, Token
from scheduler_service.engine import job_summary
from scheduler_service.engine.compile import with_present_days
from scheduler_service.engine.decision import SMALL_BYTES, STOPPING, Decision, Job
from scheduler_service.engine.program import Program, weigh
from scheduler_service.hosts.begun_executions import BegunMark
from scheduler_service.hosts.clock import WaitUntil, ahead_of, begin_of, is_past
from scheduler_service.hosts.commit_builder import (
    CommitBuilder,
    DecidedTurn,
    has_large_bodies,
    is_idle,
    is_stored,
    keeps_much,
    note_act,
    remember_reply,
    sort_effects,
)
from scheduler_service.hosts.host_dependencies import Act, Alarms, TurnParts
from scheduler_service.hosts.job_cache import CachedJob, LoadedJob, OpenBytes, PendingCommit, weigh_open
from scheduler_service.hosts.job_loading import JobLoading
from scheduler_service.hosts.revisions import accepted, bind
from scheduler_service.hosts.work_thread import LargeTurns, takes_long, work_apart
from scheduler_service.pacing.waiting_room import Place
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import NOTHING, StateStore

Made = TypeVar("Made")
REPORTS = (FeedbackArrived, PartEnded, PartProgressed)
"""Events whose bodies a context may keep, as it does answers."""
UNREPORTED_DELAY_MS = 2
"""A turn that was decided ahead and starts so much late at most keeps its records as they are."""


class Turn:
    """Takes turns on cached jobs. The caller holds the job's lock from before `run` to after it.

    `boot` numbers the starts of this store's process; `alive` names the calls of a life that really are in
    flight, `gone` those that were, with a process that has died; `wait_until` waits for a steady moment. A
    turn on large bodies waits `longest_line` ms at most for its place. `begun` tells a later start up to
    which moment executions have begun. `lacks_room` says which deliveries without a guarantee are to be
    written as well. `act` starts effects.
    """

    def __init__(
        self,
        parts: TurnParts,
        *,
        store: StateStore,
        holder: Holder,
        boot: int,
        alarms: Alarms,
        act: Act,
        alive: Callable[[str], tuple[Token, ...]],
        wait_until: WaitUntil,
        open_bytes: OpenBytes,
        begun: BegunMark | None = None,
        longest_line: int | None = None,
        lacks_room: Callable[[Delivery], bool] = lambda _: False,
        gone: Callable[[str], tuple[Token, ...]] = lambda _: (),
    ) -> None:
        core = self._core = parts.core
        self._history = parts.history
        self._observe_job = parts.observe_job
        self._store = store
        self._clock = parts.clock
        self._alarms = alarms
        self._act = act
        self._alive = alive
        self._gone = gone
        self._wait_until = wait_until
        self._new_identity = parts.new_identity
        self._holder = holder
        self._open_bytes = open_bytes
        self._large_turns = LargeTurns(core=core, open_bytes=open_bytes, clock=parts.clock, wait=longest_line)
        self._lacks_room = lacks_room
        self._reads_bodies = parts.reads_bodies
        self._commits = CommitBuilder(redact=parts.redact, holder=holder, boot=boot)
        self._loading = JobLoading(store=store, compiler=core.compile)
        self._begun = BegunMark() if begun is None else begun
        self._rates = parts.rates
        self._held_back: ReachedLimit | None = None

    def run(self, cached: CachedJob, command: Command, moment: int | None = None) -> Awaitable[Reply]:
        """Takes one turn; to be awaited at once. Raises StoreError: no effect was started, and `cached` is
        unchanged, or has a `doubt`: whether the store has the turn is found out by the next one.

        Where the wall `moment` is still to come, the turn is decided as of that moment and made durable now;
        it is applied to `cached`, and its effects start, at that moment. A job with live executions is not
        decided ahead, because they may still change the outcome.
        """
        is_ready = cached.loaded and cached.doubt is None and not cached.cut_off  # `cached.is_ready`
        may_ask = self._rates is not None and type(command.event) is Triggered
        if command.remembered is not None or may_ask or not is_ready:
            return self._run_prepared(cached, command, moment)
        if moment is not None and cached.is_live:
            moment = None
        _take_days(cached)
        return self._take(cached, command, moment)  # mostly: so it has no coroutine around it

    async def _run_prepared(self, cached: CachedJob, command: Command, moment: int | None) -> Reply:
        await self._prepare(cached)
        _take_days(cached)
        if moment is not None and cached.is_live:
            moment = None
        remembered = command.remembered
        if remembered is not None:
            known = await self._store.recall(remembered.scope, remembered.key, remembered.since)
            if known is not None:
                return Recalled(known.answer, known.digest == remembered.digest)
        if self._rates is not None and type(command.event) is Triggered:
            await self._rates.ask(cached.job_id)  # just before the turn, which takes what there is
        return await self._take(cached, command, moment)

    def begin_life(self, cached: CachedJob, command: Command) -> PendingCommit | None:
        """Decides the creation of a job that the store does not know; if it does, the commit is refused.

        It goes by `expect`, its commit to the store, and `settle`. Where the store refuses it, `cached` knows
        as little as before. None: the creation is refused. No answer is looked up under the command's
        Idempotency-Key: one would have gone with the job that it created.
        """
        event, definition, remembered = command.event, command.definition, command.remembered
        assert definition is not None, "a creation has a definition"
        cached.loaded = True
        cached.committed = NOTHING
        now = self._clock.now()
        born, programs = bind(cached, event, definition, self._new_identity)
        job = Job(None, programs, self._holder, held_back=self._held_back)
        if self._rates is not None:
            job = replace(job, held_back=self._rates.hold(cached.job_id))
        decision = self._core.decide(job, born, now)
        if decision.document is None:
            return None
        self._count_begun(cached.job_id, None, decision, programs)
        if command.act is not None:
            decision = note_act(decision, event, command.act)
        kept = remembered and remember_reply(cached.job_id, remembered, decision.reply, command.answer)
        decision, deliveries, queued = sort_effects(cached.job_id, decision, self._lacks_room)
        text, weight = definition.text, definition.weight
        if weight is None:  # here, where a caller rests before what is large, not when the commit is known
            weight = weigh(text)
        turn = DecidedTurn(decision, programs, now, text, kept, deliveries, queued, weight=weight)
        return self._commits.prepare(cached, turn)

    def begin_nothing(self) -> None:
        """From now on no execution begins here: what waits stays so, and what runs goes on."""
        self._held_back, self._rates = STOPPING, None

    async def expect(self, cached: CachedJob, pending: PendingCommit) -> None:
        """Just before the commit: the alarm comes first, and until the store has answered nobody knows."""
        await self._alarms.expect(cached.job_id, pending.commit.due)
        cached.doubt = pending

    async def settle(self, cached: CachedJob, pending: PendingCommit, error: StoreError | None) -> None:
        """What the store said of the commit. If it failed the alarm stays: an early ring changes nothing."""
        if error is None:
            await self._finish(cached, pending)
            return
        if pending.commit.expected == NOTHING and not isinstance(error, StoreUncertain):
            cached.forget()
            return
        if isinstance(error, StoreUnavailable):
            cached.doubt = None
        self._alarms.again(cached.job_id)

    async def resolve(self, cached: CachedJob, doubt: PendingCommit) -> None:
        """Asks the store whether it has the turn of which it did not say so."""
        stored = await self._store.load(cached.job_id)
        if is_stored(stored, doubt.commit):
            await self._finish_in_time(cached, doubt)
        elif (0 if stored is None or stored.document is None else stored.sequence) == cached.committed:
            cached.doubt = None
        else:
            cached.forget()

    async def read(self, cached: CachedJob, loaded: LoadedJob | None = None) -> Job | None:
        """The job as its latest turn left it, lost calls looked after first. Raises StoreError.

        `loaded`: what the caller has just loaded; a job in memory is not loaded at all.
        """
        await self._prepare(cached, loaded)
        return self._present(cached)

    def glance(self, cached: CachedJob) -> Job | None:
        """The job as its latest answered turn left it; None: it has to be loaded. It needs no lock.

        A turn under way is left out, as nobody has been told of it; so no reader waits for those in line.
        """
        is_uncertain = cached.doubt is not None and not cached.is_committing
        if cached.document is None or is_uncertain or cached.cut_off:
            return None
        return self._present(cached)

    async def look_up(self, job_id: str) -> CachedJob:
        """The job as the store has it, beside its turns: for one that `is_empty`. Raises StoreError."""
        found = CachedJob(job_id)
        await self._loading.take_in(found)
        return found

    async def load(self, cached: CachedJob, loaded: LoadedJob | None = None) -> Job | None:
        """The job as the store has it, what has become of its calls left open. Raises StoreError."""
        try:
            if cached.doubt is not None:
                await self.resolve(cached, cached.doubt)
            if not cached.loaded:
                await self._loading.take_in(cached, loaded)
        except StateUnreadable:
            raise  # the store answered, and will answer the same in a second
        except StoreError:
            self._alarms.again(cached.job_id)
            raise
        return self._present(cached)

    def _present(self, cached: CachedJob) -> Job | None:
        if cached.document is None:
            return None
        _take_days(cached)
        return Job(cached.document, cached.programs, self._holder)

    async def _prepare(self, cached: CachedJob, loaded: LoadedJob | None = None) -> None:
        """Brings `cached` to where a turn may start: loaded, without doubt, its lost calls looked after."""
        if cached.is_ready:
            return
        await self.load(cached, loaded)
        if cached.cut_off and cached.document is not None:
            await self._wait_until(begin_of(cached.document, self._clock.now()))
            uid = cached.document.head.uid
            resumed = Resumed(self._alive(uid), self._begun.last, self._gone(uid))
            await self._take(cached, Command(resumed))
            cached.cut_off = False

    async def _take_large(self, cached: CachedJob, command: Command, moment: int | None) -> Reply:
        document = cached.document
        if self._large_turns.is_crowded and not cached.is_live:
            cached.forget()  # the store has all of it, and those who wait are many
        place = await self._large_turns.enter(document, command.event)
        try:
            if not cached.loaded:
                await self.load(cached)
            if not cached.cut_off or isinstance(command.event, Resumed):
                return await self._take(cached, command, moment, place)
        finally:
            place.leave()
        # It was changed elsewhere meanwhile: its lost calls come first, each turn in a place of its own.
        await self._prepare(cached)
        return await self._take(cached, command, moment)

    async def _take(
        self, cached: CachedJob, command: Command, moment: int | None = None, place: Place | None = None
    ) -> Reply:
        event, definition, remembered = command.event, command.definition, command.remembered
        now = self._clock.now()
        until = None if moment is None else _ahead(moment, now)
        now = until or now
        before, programs = cached.document, cached.programs
        if definition is not None:
            event, programs = bind(cached, event, definition, self._new_identity)
        rates = None if self._rates is None or not isinstance(event, BEGINNING) else self._rates
        held_back = self._held_back if rates is None else rates.hold(cached.job_id)
        job = Job(before, programs, self._holder, self._open_bytes.is_full, held_back)
        if place is not None:
            decision = await self._large_turns.decide(cached, job, event, now)
        elif takes_long(job, event, now.wall):
            return await self._take_large(cached, command, moment)
        else:
            decision = self._core.decide(job, event, now)
            if decision.counts_more:  # at once: the next turn may be decided before this one is durable
                decision = self._admit(cached, decision, job, event, now)
        if rates is not None:
            self._count_begun(cached.job_id, before, decision, programs)
        decision, deliveries, queued = sort_effects(cached.job_id, decision, self._lacks_room)
        kept = remembered and remember_reply(cached.job_id, remembered, decision.reply, command.answer)
        if not (decision.effects or decision.records or kept is not None) and is_idle(before, decision):
            if isinstance(event, AlarmRang):
                await self._look_again(cached, now, held_back)
            return decision.reply
        decision = decision if command.act is None else note_act(decision, event, command.act)
        text = None if definition is None else accepted(before, decision.document, definition)
        # An answer after which nothing goes out may wait for others to be written with.
        may_wait = not decision.effects and isinstance(event, CallEnded)
        turn = DecidedTurn(decision, programs, now, text, kept, deliveries, queued, may_wait, until)
        if until is not None and queued:  # whoever claims sees the parts as soon as they are durable
            await self._wait_for(until, place)
            return await self._take(cached, command)
        is_apart = (place and keeps_much(decision)) or (self._reads_bodies and has_large_bodies(decision))
        own = self._commits
        if command.act is not None or own.must_be_durable(cached, turn):
            pending = await self._apart(own.prepare, cached, turn) if is_apart else own.prepare(cached, turn)
            await self._commit(cached, pending, place)
            return decision.reply
        if until is not None:
            await self._wait_for(until, place)
        batch = await self._apart(own.batch, cached, turn) if is_apart else own.batch(cached, turn)
        alarm = self._go_on(cached, turn, batch, event)
        if alarm is not None:
            await alarm
        return decision.reply

    def _admit(self, cached: CachedJob, decision: Decision, job: Job, event: Event, now: Now) -> Decision:
        """A decision that makes large bodies, or the one where there is no room for them."""
        cached.keeps_much = True
        if self._open_bytes.admit(cached, weigh_open(decision.document)):
            return decision
        return self._core.decide(replace(job, is_full=True), event, now)

    def _count_begun(
        self, job_id: str, before: Document | None, decision: Decision, programs: Mapping[int, Program]
    ) -> None:
        """The system's own work uses nothing of what its tenant may begin."""
        after, reply = decision.document, decision.reply
        if self._rates is not None and after is not None:
            if type(reply) is Refusal and reply.limit is not None:
                self._rates.refuse(job_id)
            begun = job_summary.count_begun(before, after)
            if begun and not programs[after.head.revision].system:
                self._rates.count(job_id, begun)

    async def _apart(
        self, make: Callable[[CachedJob, DecidedTurn], Made], cached: CachedJob, turn: DecidedTurn
    ) -> Made:
        """What `make` makes of large bodies, beside the loop."""
        return await work_apart(partial(make, self._commits.detach(cached), turn))

    async def _wait_for(self, until: Now, place: Place | None) -> None:
        if place is not None:
            place.leave()
        await self._wait_until(until.steady)

    async def _commit(self, cached: CachedJob, pending: PendingCommit, place: Place | None) -> None:
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

    def _go_on(
        self, cached: CachedJob, turn: DecidedTurn, batch: Batch | None, event: Event
    ) -> Awaitable[None] | None:
        """A turn of qos 0 that changed nothing durable acts at once. Returns what sets its alarm, if any."""
        cached.document = turn.decision.document
        due = job_summary.due(Job(cached.document, cached.programs, self._holder))
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

    async def _look_again(self, cached: CachedJob, now: Now, held_back: ReachedLimit | None) -> None:
        """A ring that changed nothing used up the alarm: it is set again, but never so that it spins."""
        if is_past(cached.due, now):
            if self._rates is None or held_back is None or held_back.left:
                self._alarms.again(cached.job_id)
            else:
                self._alarms.again(cached.job_id, self._rates.line_up(cached.job_id))
        else:
            await self._set_alarm(cached)

    async def _finish_in_time(self, cached: CachedJob, pending: PendingCommit) -> None:
        """`_finish` at its moment. Where that has passed, its starts and deadlines are so much later."""
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
            known = self._loading.programs
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


def _ahead(moment: int, now: Now) -> Now | None:
    """The wall `moment` on both lines, where it is still to come."""
    ahead = ahead_of(moment, now)
    return Now(now.wall + ahead, now.steady + ahead) if ahead else None


def _take_days(cached: CachedJob) -> None:
    """Where a timer names a calendar, its days are those of now."""
    for program in cached.programs.values():  # mostly one, without
        if program.timer.rule is not None:
            known = cached.programs.items()
            cached.programs = {revision: with_present_days(program) for revision, program in known}
            return
