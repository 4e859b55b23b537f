"""The turn: load, decide, arm, commit, act. The one file that knows this order."""

from collections.abc import Callable

from scheduler_service.domain.events import AlarmRang, CallEnded, Created, Event, Resumed
from scheduler_service.domain.moments import DAY, Now
from scheduler_service.domain.replies import Recalled, Reply
from scheduler_service.domain.wire import Holder, Token
from scheduler_service.engine.decision import Job
from scheduler_service.engine.program import Program
from scheduler_service.engine.status import revisions
from scheduler_service.hosts.commit_builder import (
    CommitBuilder,
    DecidedTurn,
    is_idle,
    is_stored,
    remember_reply,
    sort_effects,
)
from scheduler_service.hosts.core import Act, Core, Redact
from scheduler_service.hosts.identity import NewIdentity
from scheduler_service.hosts.job_cache import CachedJob, PendingCommit, has_open_executions
from scheduler_service.hosts.program_cache import ProgramCache
from scheduler_service.hosts.revisions import accepted, bind
from scheduler_service.hosts.timed_release import WaitUntil, ahead_of, begin_of, is_past
from scheduler_service.ports.alarms import Alarms
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import History
from scheduler_service.ports.state import NOTHING, StateStore

Away = Callable[[str], tuple[Holder, ...]]
BEARABLE = 2  # ms by which what a turn ahead of its moment begins may begin late, and not say so


class Turn:
    """Takes turns on jobs that are held. The caller holds the job's lock from before `run` to after it.

    `boot` numbers the starts of this store's process; `alive` names the calls of a life that really are in
    flight; `redact` masks and cuts a record before it is written anywhere; `away` names the other nodes that
    live and will hand executions over (None: there are none); `wait_until` waits for a steady moment.
    """

    def __init__(
        self,
        *,
        core: Core,
        store: StateStore,
        history: History,
        clock: Clock,
        alarms: Alarms,
        act: Act,
        alive: Callable[[str], tuple[Token, ...]],
        redact: Redact,
        lives: NewIdentity,
        holder: Holder,
        boot: int,
        wait_until: WaitUntil,
        away: Away | None = None,
    ) -> None:
        self._core = core
        self._store = store
        self._history = history
        self._clock = clock
        self._alarms = alarms
        self._act = act
        self._alive = alive
        self._away = away
        self._wait_until = wait_until
        self._lives = lives
        self._holder = holder
        self._writes = CommitBuilder(core=core, redact=redact, holder=holder, boot=boot)
        self._programs = ProgramCache(store=store, compiler=core.compile)

    async def run(
        self,
        held: CachedJob,
        command: Command,
        moment: int | None = None,
    ) -> Reply:
        """Takes one turn. Raises StoreError: no effect was started, and `held` is as it was or in doubt.

        Where the wall `moment` is still to come, the turn is decided as of then and made durable now; `held`
        learns of it, and its effects start, at that moment. Not so where executions may decide otherwise.
        """
        if not held.is_ready:
            await self._prepare(held)
        if moment is not None and held.is_live:
            moment = None
        remembered = command.remembered
        if remembered is not None:
            known = await self._store.recall(remembered.scope, remembered.key, remembered.created_at - DAY)
            if known is not None:
                return Recalled(known.answer, known.digest == remembered.digest)
        return await self._take(held, command, moment)

    def begin_life(self, held: CachedJob, event: Created, definition: Definition) -> PendingCommit | Reply:
        """Decides the creation of a job of which the store should know nothing: its commit counts only then.

        A Prepared goes by `expect`, its commit to the store, and `settle`. Where the store refuses it,
        `held` knows as little as before.
        """
        held.loaded = True
        held.committed = NOTHING
        now = self._clock.now()
        born, programs = bind(held, event, definition, self._lives)
        decision = self._core.decide(Job(None, programs, self._holder), born, now)
        if decision.document is None:
            held.forget()
            return decision.reply
        decision, deliveries, queued = sort_effects(held.job_id, decision)
        turn = DecidedTurn(
            decision, programs, now, text=definition.text, deliveries=deliveries, queued=queued
        )
        return self._writes.prepare(held, turn)

    async def expect(self, held: CachedJob, prepared: PendingCommit) -> None:
        """Just before the commit: the alarm comes first, and until the store has answered nobody knows."""
        await self._alarms.expect(held.job_id, prepared.commit.due)
        held.doubt = prepared

    async def settle(self, held: CachedJob, prepared: PendingCommit, error: StoreError | None) -> None:
        """What the store said of the commit. The early alarm stays when it failed: it only makes us look."""
        if error is None:
            await self._finish(held, prepared)
            return
        if prepared.commit.expected == NOTHING and not isinstance(error, StoreUncertain):
            held.forget()
            return
        if isinstance(error, StoreUnavailable):
            held.doubt = None
        self._alarms.again(held.job_id)

    async def read(self, held: CachedJob) -> Job | None:
        """The job as its latest turn left it, lost calls looked after first. Raises StoreError."""
        await self._prepare(held)
        return None if held.document is None else Job(held.document, held.programs, self._holder)

    async def _prepare(self, held: CachedJob) -> None:
        """Brings `held` to where a turn may start: loaded, without doubt, its lost calls looked after."""
        if held.is_ready:
            return
        try:
            if held.doubt is not None:
                await self._resolve(held, held.doubt)
            if not held.loaded:
                await self._load(held)
        except StoreError:
            self._alarms.again(held.job_id)
            raise
        if held.cut_off and held.document is not None:
            await self._wait_until(begin_of(held.document, self._clock.now()))
            away = () if self._away is None else self._away(held.job_id)
            resumed = Resumed(self._alive(held.document.head.uid), away)
            await self._take(held, Command(resumed))
            held.cut_off = False

    async def _take(self, held: CachedJob, command: Command, moment: int | None = None) -> Reply:
        event, definition, remembered = command.event, command.definition, command.remembered
        now = self._clock.now()
        ahead = ahead_of(moment, now)
        if ahead:
            now = Now(now.wall + ahead, now.steady + ahead)
        before, programs = held.document, held.programs
        if definition is not None:
            event, programs = bind(held, event, definition, self._lives)
        decision = self._core.decide(Job(before, programs, self._holder), event, now)
        decision, deliveries, queued = sort_effects(held.job_id, decision)
        kept = None
        if remembered is not None:
            kept = remember_reply(held.job_id, remembered, decision.reply, command.answer)
        if kept is None and is_idle(before, decision):
            if isinstance(event, AlarmRang):
                await self._look_again(held, now)
            return decision.reply
        turn = DecidedTurn(
            decision,
            programs,
            now,
            text=None if definition is None else accepted(before, decision.document, definition),
            kept=kept,
            deliveries=deliveries,
            queued=queued,
            # An answer after which nothing goes out: it may wait for others to be written with.
            may_wait=not decision.effects and isinstance(event, CallEnded),
            until=now if ahead else None,
        )
        if turn.until is not None and queued:
            # Whoever claims sees the parts as soon as they are durable.
            await self._wait_until(turn.until.steady)
            return await self._take(held, command)
        if self._writes.must_be_durable(held, turn):
            await self._commit(held, self._writes.prepare(held, turn))
        else:
            await self._go_on(held, turn, event)
        return decision.reply

    async def _commit(self, held: CachedJob, prepared: PendingCommit) -> None:
        """Arm, commit, act."""
        await self.expect(held, prepared)
        try:
            await self._store.commit(prepared.commit)
        except StoreError as error:
            await self.settle(held, prepared, error)
            raise
        await self._finish_in_time(held, prepared)

    async def _finish_in_time(self, held: CachedJob, prepared: PendingCommit) -> None:
        """`_finish`, not ahead of its moment; what begins late begins then, with all of its time."""
        until = prepared.until
        if until is not None:
            await self._wait_until(until.steady)
            late = self._clock.now().steady - until.steady
            if late > BEARABLE:
                prepared = self._writes.delay(prepared, late)
        await self._finish(held, prepared)

    async def _finish(self, held: CachedJob, prepared: PendingCommit) -> None:
        """The store has the turn: it is what the job is now, and its effects may start."""
        commit = prepared.commit
        held.doubt = None
        held.document = prepared.decision.document
        held.programs = prepared.programs
        held.committed = commit.sequence if held.document is not None else 0
        held.entry = commit.entry
        held.durable_due = commit.due
        held.due = commit.due if prepared.due is None else prepared.due
        if commit.definition is not None:
            revision = commit.entry.revision
            self._programs.keep(commit.entry.uid, revision, held.programs[revision])
        if commit.batch is not None:
            self._history.append(commit.batch, durable=True)
        if prepared.decision.effects:
            self._act(held.job_id, prepared.decision.effects, held.programs)
        await self._set_alarm(held)

    async def _go_on(self, held: CachedJob, turn: DecidedTurn, event: Event) -> None:
        """A turn of qos 0 that changed nothing durable acts at once, or at its moment."""
        if turn.until is not None:
            await self._wait_until(turn.until.steady)
        batch = self._writes.batch(held, turn)
        held.document = turn.decision.document
        due = self._core.due(Job(held.document, held.programs, self._holder))
        # An answer leaves the alarm where it is set, unless it changes when that has to ring.
        is_set = due == held.due and isinstance(event, CallEnded)
        held.due = due
        if batch is not None:
            self._history.append(batch, durable=False)
        if turn.decision.effects:
            self._act(held.job_id, turn.decision.effects, held.programs)
        if not is_set:
            await self._set_alarm(held)

    async def _look_again(self, held: CachedJob, now: Now) -> None:
        """A ring that changed nothing used up the alarm: it is set again, but never so that it spins."""
        if is_past(held.due, now):
            self._alarms.again(held.job_id)
        else:
            await self._set_alarm(held)

    async def _set_alarm(self, held: CachedJob) -> None:
        if held.due == held.durable_due:
            await self._alarms.arm(held.job_id, held.due)
        else:
            await self._alarms.hold(held.job_id, held.due)

    async def _resolve(self, held: CachedJob, doubt: PendingCommit) -> None:
        """Asks the store whether it has the turn of which it did not say so."""
        stored = await self._store.load(held.job_id)
        if is_stored(stored, doubt.commit):
            await self._finish_in_time(held, doubt)
        elif (0 if stored is None or stored.document is None else stored.sequence) == held.committed:
            held.doubt = None
        else:
            held.forget()

    async def _load(self, held: CachedJob) -> None:
        stored = await self._store.load(held.job_id)
        document, programs = None, dict[int, Program]()
        if stored is not None and stored.document is not None:
            document = self._core.decode(stored.document)
            programs = await self._programs.load(document.head.uid, revisions(document))
        held.document, held.programs = document, programs
        if stored is not None:
            held.entry = stored.entry
            held.sequence = max(held.sequence, stored.sequence)
            held.committed = 0 if document is None else stored.sequence
            held.due = held.durable_due = stored.due
        held.cut_off = has_open_executions(document)
        held.loaded = True
