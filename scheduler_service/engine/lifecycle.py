"""The life of a job: created, updated, paused, activated, destroyed (SPEC section 10)."""

from scheduler_service.domain.document import Cursor, Document, Head
from scheduler_service.domain.effects import Retire
from scheduler_service.domain.events import Activated, Created, Paused, Updated
from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import Now
from scheduler_service.domain.replies import (
    Reactivated,
    Refusal,
    RefusalCode,
    Reply,
    Taken,
    Unchanged,
)
from scheduler_service.engine.admission import drop, fill_places
from scheduler_service.engine.attempt import cancel
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.firing import account_run, fire, fire_due, look_ahead
from scheduler_service.engine.parts.queue import reconfigure
from scheduler_service.engine.states import LIVE
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.timing.misfire import resume
from scheduler_service.timing.timer import TimerKind

PAUSED, SUPERSEDED, DESTROYED = "paused", "superseded", "destroyed"


def create(job: Job, event: Created, now: Now) -> Decision:
    """A life begins; what is due at once, as a `one_time`, fires in this very turn."""
    program = job.programs[event.revision]
    active = program.active and not program.starts_paused
    head = Head(
        uid=event.uid,
        key=event.key,
        revision=event.revision,
        created_at=now.wall,
        updated_at=now.wall,
        cursor=Cursor(now.wall),
        active=active,
        paused_at=None if active else now.wall,
        pause_reason=None if active else PAUSED,
        execute_number=event.execute_number,
        request_counts=event.request_counts,
        owner=event.owner,
    )
    draft = TurnState(job, Document(head), now)
    look_ahead(draft)
    fire_due(draft)
    return draft.decision(Taken())


def answer_existing(draft: TurnState, event: Created) -> Reply:
    """A creation meets a job that lives: the same definition is fine, another one is a conflict."""
    if draft.program.fingerprint == event.fingerprint:
        return Unchanged()
    return Refusal(
        RefusalCode.CONFLICT,
        f"the job {draft.program.job_id!r} exists with another definition; "
        "change it with POST /jobs/{jobId}/update, or delete it first",
        "/jobId",
    )


def update(draft: TurnState, event: Updated) -> Reply:
    """Another definition from now on; live executions keep theirs."""
    if event.if_match is not None and draft.head.revision not in event.if_match:
        return Refusal(
            RefusalCode.PRECONDITION,
            f'the job is at revision "{draft.head.revision}", which is not among the quoted tags of If-Match;'
            " read it again",
            "/If-Match",
        )
    _close_schedule(draft)
    for run in list(draft.opens.values()):
        if run.triggered_by is TriggeredBy.TIMER and run.state not in LIVE:
            drop(draft, run, SUPERSEDED)
    reconfigure(draft, draft.programs[event.revision])
    was_active = draft.head.active
    active = was_active if event.active is None else event.active
    draft.change(
        revision=event.revision,
        updated_at=draft.now.wall,
        cursor=Cursor(draft.now.wall, _last_that_counts(draft, event.revision)),
        active=active,
        paused_at=None if active else draft.head.paused_at or draft.now.wall,
        pause_reason=None if active else draft.head.pause_reason or PAUSED,
        owner=draft.head.owner if event.owner is None else event.owner,
    )
    if was_active and not active:
        _take_offline(draft, drain=False)
    fill_places(draft)
    look_ahead(draft)
    fire_due(draft)
    return Taken()


def pause(draft: TurnState, event: Paused) -> Reply:
    """Timer and checks go offline; live executions end as cancelled, or, with `drain`, by themselves."""
    if not draft.head.active:
        return Unchanged()
    draft.change(
        active=False,
        paused_at=draft.now.wall,
        pause_reason=event.reason,
        updated_at=draft.now.wall,
    )
    _take_offline(draft, drain=event.drain)
    return Taken()


def activate(draft: TurnState, event: Activated) -> Reply:
    """The job fires again from now; the pause's firings are accounted for, and `misfire` chooses for them."""
    if draft.head.active:
        return Unchanged()
    head = draft.head
    back = resume(draft.program.timer, head.cursor, seed=head.uid, now=draft.now.wall, policy=event.misfire)
    draft.change(
        active=True,
        paused_at=None,
        pause_reason=None,
        cursor=back.cursor,
        updated_at=draft.now.wall,
    )
    look_ahead(draft)
    if back.missed is not None:
        account_run(draft, back.missed, PAUSED)
    for firing in back.caught_up:
        fire(draft, firing, queued=event.misfire == "fire_all")
    fire_due(draft)
    return Reactivated(back.count)


def destroy(draft: TurnState) -> Decision:
    """The life ends: what runs is stopped, nothing is left but the counters."""
    for run in list(draft.opens.values()):
        drop(draft, run, DESTROYED, silent=True)
    draft.effects.append(Retire())
    ended = draft.decision(Taken())
    return Decision(None, ended.effects, ended.records, ended.reply)


def _close_schedule(draft: TurnState) -> None:
    """What the schedule so far still owes goes into the ledger: nothing disappears (SPEC section 3)."""
    fire_due(draft)
    head, timer = draft.head, draft.program.timer
    owed = resume(timer, head.cursor, seed=head.uid, now=draft.now.wall)
    if owed.missed is not None:
        account_run(draft, owed.missed, SUPERSEDED if head.active else PAUSED)


def _last_that_counts(draft: TurnState, revision: int) -> int | None:
    """The last planned firing, where the new schedule could bring it again: by lead, or a clock set back."""
    last, timer = draft.head.cursor.last, draft.programs[revision].timer
    if last is None or last < draft.now.wall or timer.kind is TimerKind.ONE_TIME:
        return None
    return last if timer.kind is TimerKind.CRON or timer == draft.program.timer else None


def _take_offline(draft: TurnState, *, drain: bool) -> None:
    for run in list(draft.opens.values()):
        if run.state in LIVE:
            if not drain:
                cancel(draft, run, PAUSED)
        elif run.triggered_by is TriggeredBy.TIMER and run.state is ExecutionState.ENQUEUED:
            drop(draft, run, PAUSED)
