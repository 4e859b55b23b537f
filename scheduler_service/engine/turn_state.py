"""The state of a job while one turn changes it, with the effects and records of the turn.

It lives for one call of `decide` and never leaves the engine.
"""

import msgspec

from scheduler_service.domain.document import Context, Document, Head, Latest, Open
from scheduler_service.domain.effects import Effect
from scheduler_service.domain.execution import (
    LIVE,
    TERMINAL,
    ExecutionState,
    FailureType,
    FiringOutcome,
    TriggeredBy,
    follow,
)
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.domain.records import ExecutionRecord, FiringRecord, Noted, Record
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.wire import CallKind, Token
from scheduler_service.engine.decision import SMALL_BYTES, STOPPING, Decision, Job
from scheduler_service.engine.program import Program
from scheduler_service.timing.timer import TimerKind

LATE_AFTER = SECOND
MANY_OPENS = 16
"""Where a job has fewer open executions, a look at each costs less than to keep count of them."""
replace = msgspec.structs.replace
# Names of the module: a lookup in the enum costs ten times as much, in every turn.
ENQUEUED, FAILED = ExecutionState.ENQUEUED, ExecutionState.FAILED
TIMER, BACKFILL = TriggeredBy.TIMER, TriggeredBy.BACKFILL
ONE_TIME = TimerKind.ONE_TIME


class NotificationEvent(msgspec.Struct, frozen=True):
    """One event of an execution that its `notification` entries may match.

    `key` is compared with `stateEquals`, `response` becomes the member of the body. `timed_out`: a timeout,
    even if it counts as 500.
    """

    key: str
    http_status: str
    response: dict[str, object]
    timed_out: bool = False


class Counts(msgspec.Struct):
    """How many open executions of a job use capacity, wait for it, and belong to a backlog of `fire_all`."""

    live: int = 0
    queued: int = 0
    backlog: int = 0


# An execution to record: the run, its revision and progress, reason, error and failure type.
Change = tuple[Open, int, str | None, str | None, str | None, FailureType | None]


class TurnState:
    """The state of a job while a turn changes it; `program` is the current definition.

    `last_events`: the last one that this turn notified of each execution. `grown`: by how many bytes the
    bodies that it has made are larger than what they are made of. `last_ended`: of the executions that
    have run, the last one that this turn has ended.
    """

    __slots__ = (
        "_changed",
        "_counts",
        "_document",
        "contexts",
        "counts_more",
        "effects",
        "grown",
        "head",
        "held_back",
        "holder",
        "is_full",
        "last_ended",
        "last_events",
        "now",
        "opens",
        "program",
        "programs",
        "records",
    )

    def __init__(self, job: Job, document: Document, now: Now) -> None:
        self._document = document
        self._counts: Counts | None = None
        self.head: Head = document.head
        self.opens: dict[int, Open] = {}
        for run in document.head.opens:  # usually none or one
            self.opens[run.execute_number] = run
        self.contexts: dict[int, Context] = dict(document.contexts)
        self.programs = job.programs
        self.program: Program = job.programs[document.head.revision]
        self.holder = job.holder
        self.is_full = job.is_full
        self.held_back = job.held_back
        self.grown = 0
        self.last_ended: Open | None = None
        self.counts_more = False
        self.now = now
        self.effects: list[Effect] = []
        self.records: list[Record] = []
        self.last_events: dict[int, NotificationEvent] = {}
        self._changed: dict[int, Change] = {}

    def lacks_room(self, size: int) -> bool:
        """Whether the process may not keep so many bytes more."""
        return self.is_full and size > SMALL_BYTES

    def is_held_back(self) -> bool:
        """Whether no execution of this job may begin now: by a limit of the tenant, or in a stop."""
        held_back = self.held_back
        if held_back is None or held_back.left:
            return False
        return held_back is STOPPING or not self.program.system

    def may_begin(self, most: int) -> int:
        """So many executions, at most `most`, may begin now."""
        held_back = self.held_back
        if held_back is None or (self.program.system and held_back is not STOPPING):
            return most
        return min(most, held_back.left)

    def spend(self, number: int) -> None:
        """So many of those that may begin have begun in this turn."""
        if self.held_back is not None and self.held_back.left:
            self.held_back = replace(self.held_back, left=max(self.held_back.left - number, 0))

    def program_of(self, run: Open) -> Program:
        """The definition with which `run` started; the current one while it waits."""
        return self.programs[run.revision] if run.revision else self.program

    def change_head(self, **values: object) -> None:
        """Puts new values into the head."""
        self.head = replace(self.head, **values)
        if "revision" in values:
            self.program = self.programs[self.head.revision]
            self._counts = None

    def put(self, run: Open) -> Open:
        """Puts `run` into the document, in its place or at the end, and records it."""
        before = self.opens.get(run.execute_number)
        if before is not None and before.state is not run.state:
            follow(before.state, run.state)
        self.opens[run.execute_number] = run
        if self._counts is not None:
            if before is not None:
                self._count(self._counts, before, -1)
            self._count(self._counts, run, 1)
        self.record_execution(run)
        return run

    def requeue(self, run: Open) -> Open:
        """Puts `run` at the end of the queue."""
        self.put(run)
        self.opens[run.execute_number] = self.opens.pop(run.execute_number)
        return run

    def change_context(self, run: Open, **values: object) -> Context:
        """Puts new values into the context of `run`."""
        context = replace(self.contexts[run.execute_number], **values)
        self.contexts[run.execute_number] = context
        return context

    def record_execution(
        self,
        run: Open,
        *,
        reason: str | None = None,
        error: str | None = None,
        failure_type: FailureType | None = None,
    ) -> None:
        """Records the execution as it is now; the last call of a turn counts."""
        context = self.contexts.get(run.execute_number)
        if context is not None and run.state is FAILED:
            error, failure_type = error or context.failure, failure_type or context.failure_type
        progress = None if context is None else context.progress
        revision = run.revision or self.head.revision
        # The record itself is made once, in `decision`: a turn changes an execution up to three times.
        self._changed[run.execute_number] = (run, revision, progress, reason, error, failure_type)

    def state_of(self, number: int) -> ExecutionState:
        """The state of an execution that this turn has changed, also of an ended one."""
        return self._changed[number][0].state

    def close(
        self,
        run: Open,
        state: ExecutionState,
        *,
        reason: str | None = None,
        error: str | None = None,
        failure_type: FailureType | None = None,
    ) -> Open:
        """Ends an execution: takes it out of the document and records it."""
        ended = replace(run, state=follow(run.state, state))
        self.record_execution(ended, reason=reason, error=error, failure_type=failure_type)
        if ended.started_at is not None:
            self.last_ended = ended
        before = self.opens.pop(run.execute_number, None)
        if self._counts is not None and before is not None:
            self._count(self._counts, before, -1)
        self.contexts.pop(run.execute_number, None)
        return ended

    def count_live(self) -> int:
        """How many executions use capacity. A turn that starts thousands asks for each of them."""
        return len(self.live()) if len(self.opens) < MANY_OPENS else self._count_many().live

    def count_queued(self) -> int:
        """How many executions wait for capacity, without a backfill and those held by a debug switch."""
        return self._count_many().queued

    def has_backlog(self) -> bool:
        """Whether executions that a `fire_all` has caught up are open.

        The run of a `one_time` that waited for its job's update is `queued` as well, but is no backlog.
        """
        return len(self.opens) > 0 and self._count_many().backlog > 0

    def _count_many(self) -> Counts:
        if self._counts is None:
            self._counts = Counts()
            for run in self.opens.values():
                self._count(self._counts, run, 1)
        return self._counts

    def _count(self, counts: Counts, run: Open, by: int) -> None:
        if run.state in LIVE:
            counts.live += by
        if run.triggered_by is BACKFILL:  # waits behind all others
            return
        if run.state is ENQUEUED and not run.held:
            counts.queued += by
        if run.queued and self.program_of(run).timer.kind is not ONE_TIME:
            counts.backlog += by

    def live(self) -> list[Open]:
        """The executions that use capacity: running, or waiting for a retry; the oldest first."""
        if not self.opens:
            return []
        return [run for run in self.opens.values() if run.state in LIVE]

    def is_backfilling(self) -> bool:
        """Whether a backfill alone uses capacity."""
        return all(run.triggered_by is BACKFILL for run in self.live())

    def first_queued(self) -> Open | None:
        """The first execution that waits for capacity, without those held by a debug switch.

        Those of a backfill come after all others.
        """
        filled: Open | None = None
        for run in self.opens.values():
            if run.state is ENQUEUED and not run.held:
                if run.triggered_by is not BACKFILL:
                    return run
                filled = filled or run
        return filled

    def note(self, run: Open, kind: str, text: str, *, step: int | None = None) -> None:
        """Writes a line into the execution's log."""
        self.records.append(
            Noted(
                execute_number=run.execute_number,
                at=self.now.wall,
                kind=kind,
                text=text,
                request_counts=run.request_counts or None,
                step=step,
            )
        )

    def record_firing(self, run: Open, outcome: FiringOutcome, reason: str | None = None) -> None:
        """Records the outcome of the planned firing of `run` in the ledger; triggers are not in it."""
        if run.triggered_by is not TIMER:
            return
        self.records.append(
            FiringRecord(  # by position
                run.planned_at,
                outcome,
                None,  # until
                1,  # count
                reason,
                run.execute_number,
            )
        )

    def moment_in(self, run: Open) -> int:
        """Now (wall), and never before `run` began, whatever the clock was set to since."""
        now, began = self.now.wall, run.started_at or run.created_at
        return now if now > began else began  # five times an execution; `max` takes as long as all the rest

    def token(self, run: Open, kind: CallKind, serial: int) -> Token:
        """The token of a call of this attempt."""
        return Token(self.head.uid, run.execute_number, run.request_counts, kind, serial)

    def decision(self, reply: Reply) -> Decision:
        """Freezes the state. A turn that changed nothing returns the same document object."""
        head, before = self.head, self._document
        if self._changed:
            head = replace(head, opens=tuple(self.opens.values()), latest=self._latest())
            self.records.extend(map(self._record, self._changed.values()))
        if head is before.head and self.contexts == before.contexts:
            return Decision(before, tuple(self.effects), tuple(self.records), reply)
        document = Document(head, self.contexts)
        return Decision(document, tuple(self.effects), tuple(self.records), reply, self.counts_more)

    def _latest(self) -> Latest | None:
        newest = max(self._changed)
        known = self.head.latest
        if known is not None and known.execute_number > newest:
            return known
        run, _, _, _, error, _ = self._changed[newest]
        return Latest(newest, run.state, error)

    def _record(self, touch: Change) -> ExecutionRecord:
        run, revision, progress, reason, error, failure_type = touch
        return ExecutionRecord(  # by position
            run.execute_number,
            revision,
            run.state,
            run.triggered_by,
            run.planned_at,
            run.created_at,
            run.started_at,
            self.moment_in(run) if run.state in TERMINAL else None,
            reason,
            error,
            failure_type,
            run.attempts,
            progress,
            run.params,
            True,  # params_complete
            run.trace,
        )
