"""The life of a job: created, updated, paused, activated, destroyed (SPEC section 10)."""

from scheduler_service.domain.document import Cursor, Document, Head
from scheduler_service.domain.effects import Retire
from scheduler_service.domain.execution import LIVE, PLANNED, TriggeredBy
from scheduler_service.domain.moments import Now
from scheduler_service.domain.replies import Reactivated, Refusal, RefusalCode, Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import Activated, Created, Destroyed, Paused, Updated
from scheduler_service.engine.admission import drop, start_queued
from scheduler_service.engine.cancellation import cancel
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.definition_checks import refuse_other_owner, refuse_ownerless
from scheduler_service.engine.firing import (
    count_from_end,
    fire_due,
    fire_or_put_off,
    is_left_as_planned,
    plan_next,
    record_missed,
)
from scheduler_service.engine.notification_events import keep_last_events
from scheduler_service.engine.parts.queue import reconfigure
from scheduler_service.engine.turn_state import TurnState, replace
from scheduler_service.timing.misfire import resume
from scheduler_service.timing.schedule import has_fixed_phase, over
from scheduler_service.timing.timer import TimerKind

PAUSED, SUPERSEDED, DESTROYED = "paused", "superseded", "destroyed"


def create(job: Job, event: Created, now: Now) -> Decision:
    """Creates the job; what is due at once, as a `one_time`, fires in the same turn.

    A definition that calls the job's owner is refused where it has none.
    """
    program = job.programs[event.revision]
    refusal = None if event.restored else refuse_ownerless(program, event.owner)
    if refusal is not None:
        return Decision(None, reply=refusal)
    active = program.active and not program.starts_paused
    head = Head(  # by position
        event.uid,
        event.key,
        event.revision,
        now.wall,
        now.wall,
        Cursor(now.wall),
        None,  # next_fire
        active,
        event.execute_number,
        event.request_counts,
        0,  # missed
        None if active else now.wall,
        None if active else PAUSED,
        owner=event.owner,
    )
    turn = TurnState(job, Document(head), now)
    plan_next(turn)
    fire_due(turn)
    if program.timer.from_end:
        count_from_end(turn)
    if turn.last_events:
        keep_last_events(turn)
    return turn.decision(Taken())


def answer_existing(turn: TurnState, event: Created) -> Reply:
    """Answers a creation of an existing job: an equal definition changes nothing, another is a conflict.

    So is an equal one of another service, if the definition calls its owner: it then means something else.
    """
    if turn.program.fingerprint == event.fingerprint:
        return refuse_other_owner(turn.program, turn.head.owner, event.owner) or Unchanged()
    return Refusal(
        RefusalCode.CONFLICT,
        f"the job {turn.program.job_id!r} exists with another definition; "
        "change it with POST /jobs/{jobId}/update, or delete it first",
        "/jobId",
    )


def refuse_revision(revision: int, accepted: frozenset[int] | None) -> Refusal | None:
    """Why a command is not taken whose caller means another revision than the job's; None: any will do."""
    if accepted is None or revision in accepted:
        return None
    return Refusal(
        RefusalCode.PRECONDITION,
        f'the job is at revision "{revision}", which is not among the quoted tags of If-Match; read it again',
        "/If-Match",
    )


def update(turn: TurnState, event: Updated) -> Reply:
    """Replaces the definition; live executions keep theirs."""
    if (refusal := refuse_revision(turn.head.revision, event.if_match)) is not None:
        return refusal
    if event.keeps_schedule:
        fire_due(turn)  # what is owed has still the old definition
        turn.change_head(revision=event.revision, updated_at=turn.now.wall)
        return Taken()
    owner = turn.head.owner if event.owner is None else event.owner
    refusal = refuse_ownerless(turn.programs[event.revision], owner)
    if refusal is not None:
        return refusal
    _close_schedule(turn)
    for run in list(turn.opens.values()):
        if run.triggered_by is TriggeredBy.TIMER and run.state not in LIVE:
            drop(turn, run, SUPERSEDED)
    reconfigure(turn, turn.programs[event.revision])
    was_active = turn.head.active
    active = was_active if event.active is None else event.active
    turn.change_head(
        revision=event.revision,
        updated_at=turn.now.wall,
        cursor=Cursor(_begin(turn, event.revision), _last_firing(turn, event.revision)),
        active=active,
        paused_at=None if active else turn.head.paused_at or turn.now.wall,
        pause_reason=None if active else turn.head.pause_reason or PAUSED,
        owner=owner,
        failures=0,
    )
    if was_active and not active:  # of a job that is paused already live executions keep theirs
        _take_offline(turn, drain=False)
    start_queued(turn)
    plan_next(turn)
    fire_due(turn)
    return Taken()


def pause(turn: TurnState, event: Paused) -> Reply:
    """Stops the timer; live executions are cancelled, or, with `drain`, go on to their own end.

    So it is where the job is paused already: what it was triggered for, and what drains, is live.
    """
    if (refusal := refuse_revision(turn.head.revision, event.if_match)) is not None:
        return refusal
    if not turn.head.active:
        return Taken() if _take_offline(turn, drain=event.drain) else Unchanged()
    turn.change_head(
        active=False, paused_at=turn.now.wall, pause_reason=event.reason, updated_at=turn.now.wall
    )
    _take_offline(turn, drain=event.drain)
    return Taken()


def activate(turn: TurnState, event: Activated) -> Reply:
    """Starts the timer again; `misfire` decides which firings of the pause are caught up.

    Failures are counted anew, as they are after an update.
    """
    if (refusal := refuse_revision(turn.head.revision, event.if_match)) is not None:
        return refusal
    if turn.head.active:
        return Unchanged()
    head, cursor = turn.head, turn.head.cursor
    if is_left_as_planned(head):
        cursor = replace(cursor, last=min(turn.now.wall, cursor.last or 0))
    back = resume(turn.program.timer, cursor, seed=head.uid, now=turn.now.wall, policy=event.misfire)
    turn.change_head(
        active=True,
        paused_at=None,
        pause_reason=None,
        cursor=back.cursor,
        updated_at=turn.now.wall,
        failures=0,
    )
    plan_next(turn)
    if back.missed is not None:
        record_missed(turn, back.missed, PAUSED)
    fire_or_put_off(turn, back.caught_up, queued=event.misfire == "fire_all")
    fire_due(turn)
    return Reactivated(back.count)


def destroy(turn: TurnState, event: Destroyed) -> Decision:
    """Ends the job: stops its executions and leaves only the counters, and in the ledger what it owed."""
    if (refusal := refuse_revision(turn.head.revision, event.if_match)) is not None:
        return turn.decision(refusal)
    _record_owed(turn, DESTROYED)
    for run in list(turn.opens.values()):
        drop(turn, run, DESTROYED, silent=True)
    turn.effects.append(Retire())
    ended = turn.decision(Taken())
    return Decision(None, ended.effects, ended.records, ended.reply)


def _close_schedule(turn: TurnState) -> None:
    """Records what the old schedule still owes: every planned firing ends in the ledger (SPEC section 3)."""
    fire_due(turn)
    _record_owed(turn, SUPERSEDED)


def _record_owed(turn: TurnState, reason: str) -> None:
    """Records planned firings that have passed and did not fire: `reason`, or that the job was paused."""
    head, timer = turn.head, turn.program.timer
    if head.active and head.next_fire is None:
        return  # it has ended; a version that reads the timer otherwise must not find more in it
    owed = resume(timer, head.cursor, seed=head.uid, now=turn.now.wall)
    if owed.missed is not None:
        record_missed(turn, owed.missed, reason if head.active else PAUSED)


def _begin(turn: TurnState, revision: int) -> int:
    """From when the new schedule has moments: from now; one of the same timer that jitter moves on stays."""
    head, timer = turn.head, turn.program.timer
    if timer != turn.programs[revision].timer or not has_fixed_phase(timer):
        return turn.now.wall
    return min(turn.now.wall, over(timer, head.cursor, head.uid, turn.now.wall + 1))


def _last_firing(turn: TurnState, revision: int) -> int | None:
    """The last planned firing, if the new schedule could repeat it: with lead, or after a clock set back."""
    last, timer = turn.head.cursor.last, turn.programs[revision].timer
    if (
        last is None
        or last < turn.now.wall
        or timer.kind is TimerKind.ONE_TIME
        or is_left_as_planned(turn.head)
    ):
        return None
    return last if timer.kind is TimerKind.CRON or timer == turn.program.timer else None


def _take_offline(turn: TurnState, *, drain: bool) -> bool:
    """Whether it has ended an execution."""
    has_ended = False
    for run in list(turn.opens.values()):
        if run.state in LIVE:
            if not drain:
                cancel(turn, run, PAUSED)
                has_ended = True
        elif run.triggered_by in PLANNED:
            drop(turn, run, PAUSED)
            has_ended = True
            if turn.program.timer.kind is TimerKind.ONE_TIME:
                _owe_again(turn)
    return has_ended


def _owe_again(turn: TurnState) -> None:
    """The `one_time` whose execution never started has not fired: it does when the job is resumed."""
    turn.change_head(cursor=replace(turn.head.cursor, last=None))
    plan_next(turn)
