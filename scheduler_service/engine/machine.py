"""decide(): an event arrives, a turn is taken, effects leave (DESIGN section 2)."""

from scheduler_service.domain.document import Calling, Checking, CheckWaiting, Open, Retrying
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.events import (
    Activated,
    Adopted,
    AlarmRang,
    CallEnded,
    CancelRequested,
    Created,
    Destroyed,
    Event,
    FeedbackArrived,
    InstancesResolved,
    MissedCounted,
    PartEnded,
    PartProgressed,
    Paused,
    Released,
    Resumed,
    Triggered,
    Unsent,
    Updated,
)
from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import Now
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Started, Taken, Unchanged
from scheduler_service.engine.admission import admit, drop, enrol, fill_places, new_execution
from scheduler_service.engine.attempt import token_of
from scheduler_service.engine.chain import begin_again, take_answer
from scheduler_service.engine.checking import send_check, take_check
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.feedback import take_feedback
from scheduler_service.engine.firing import ask_again, fire_due, take_count
from scheduler_service.engine.lifecycle import activate, answer_existing, create, destroy, pause, update
from scheduler_service.engine.parameters import check_parameters
from scheduler_service.engine.parts.dispatch import take_instances, take_part_call
from scheduler_service.engine.parts.queue import take_part_end, take_part_progress
from scheduler_service.engine.resuming import adopt, resume_calls, send_unsent
from scheduler_service.engine.timeouts import time_out
from scheduler_service.engine.turn_state import TurnState, replace
from scheduler_service.language.values import parse_json

OWN_JOB = Refusal(
    RefusalCode.CONFLICT,
    "this is one of the scheduler's own jobs: trigger or pause it, but do not replace or destroy it",
    "/jobId",
)
NO_JOB = Refusal(RefusalCode.ABSENT, "there is no such job", "/jobId")


def decide(job: Job, event: Event, now: Now) -> Decision:
    """The whole behaviour of a job: the new state, and what the world is asked to do about it.

    Pure: the same arguments always give the same decision. Never raises for anything that an event or a
    target may bring; the reply says what was refused. Without a job nothing but `Created` does anything.
    """
    document = job.document
    if document is None:
        return create(job, event, now) if isinstance(event, Created) else Decision(None, reply=NO_JOB)
    draft = TurnState(job, document, now)
    if draft.program.system and _takes_away(job, event):
        return Decision(document, reply=OWN_JOB)
    if type(event) is Destroyed:
        return destroy(draft)
    reply = _take(draft, event)
    fill_places(draft)
    return draft.decision(reply)


def _takes_away(job: Job, event: Event) -> bool:
    """Whether `event` would destroy the job, or replace its definition by one that is not the system's."""
    if isinstance(event, Updated):
        return not job.programs[event.revision].system
    return isinstance(event, Destroyed)


def _take(draft: TurnState, event: Event) -> Reply:
    match event:
        case CallEnded():
            return _take_call(draft, event)
        case AlarmRang():
            return _look(draft)
        case Triggered():
            return _trigger(draft, event)
        case FeedbackArrived():
            return take_feedback(draft, event)
        case InstancesResolved():
            return take_instances(draft, event)
        case PartEnded():
            return take_part_end(draft, event)
        case PartProgressed():
            return take_part_progress(draft, event)
        case Resumed(alive=alive, away=away):
            resume_calls(draft, frozenset(alive), frozenset(away))
            return _look(draft)
        case Adopted():
            return adopt(draft, event)
        case Unsent(token=token):
            return send_unsent(draft, token)
        case _:
            return _manage(draft, event)


def _manage(draft: TurnState, event: Event) -> Reply:
    match event:
        case Created():
            return answer_existing(draft, event)
        case Updated():
            return update(draft, event)
        case Paused():
            return pause(draft, event)
        case Activated():
            return activate(draft, event)
        case CancelRequested():
            return _cancel(draft, event)
        case Released():
            return _release(draft, event)
        case _:
            assert isinstance(event, MissedCounted), f"decide knows no event {event!r}"
            return take_count(draft, event)


def _take_call(draft: TurnState, event: CallEnded) -> Reply:
    """An answer counts only for the call that is awaited: late, doubled and foreign ones end here."""
    run = draft.opens.get(event.token.execute_number)
    context = draft.contexts.get(event.token.execute_number)
    if run is None or context is None or token_of(draft, run, context.phase) != event.token:
        return take_part_call(draft, event)
    if isinstance(context.phase, Calling):
        take_answer(draft, run, context.phase, event.outcome)
    else:
        assert isinstance(context.phase, Checking), "nothing else awaits an answer"
        take_check(draft, run, context.phase, event.outcome)
    return Taken()


def _look(draft: TurnState) -> Reply:
    """Something may be due: limits first, then waits, then delayed triggers, then the timer."""
    for run in draft.live():
        _look_at(draft, run)
    fill_places(draft)
    for run in _ripe(draft):
        enrol(draft, run)
    fire_due(draft)
    ask_again(draft)
    return Taken()


def _ripe(draft: TurnState) -> list[Open]:
    """The delayed triggers whose moment has come, in the order of their moments."""
    if not draft.opens:
        return []
    scheduled = (run for run in draft.opens.values() if run.state is ExecutionState.SCHEDULED)
    return sorted(
        (run for run in scheduled if run.planned_at <= draft.now.wall), key=lambda run: run.planned_at
    )


def _look_at(draft: TurnState, run: Open) -> None:
    context = draft.contexts.get(run.execute_number)
    if context is None:
        return
    now = draft.now.steady
    match context.phase:
        case Retrying(due=due, from_step=step):
            if due <= now:
                begin_again(draft, run, step)
        case _ if context.deadline <= now:
            time_out(draft, run, context)
        case CheckWaiting(due=due) if due <= now:
            send_check(draft, run)


def _trigger(draft: TurnState, event: Triggered) -> Reply:
    around = draft.program.surroundings
    later = event.planned_at is not None and event.planned_at > draft.now.wall
    pending = sum(run.state is ExecutionState.SCHEDULED for run in draft.opens.values())
    if later and pending >= around.pending_triggers:
        return Refusal(
            RefusalCode.LIMIT,
            f"{pending} delayed triggers of this job wait already; limits.pending_triggers allows no more",
        )
    flaws = _check_params(draft, event.params)
    if flaws:
        below = "/params" if event.replay else ""
        return Refusal(RefusalCode.INVALID, flaws[0].message, below + flaws[0].pointer)
    run = new_execution(
        draft,
        TriggeredBy.REPLAY if event.replay else TriggeredBy.MANUAL,
        draft.now.wall if event.planned_at is None else event.planned_at,
        params=event.params,
        held=around.hold_triggered,
    )
    if event.replay is not None:
        run = replace(run, from_step=event.replay.from_step, replayed=event.replay.responses)
    if not later:
        return enrol(draft, run)
    draft.keep(run)
    return Started(run.execute_number, run.state, draft.head.uid)


def _check_params(draft: TurnState, params: bytes) -> list[Problem]:
    schema = draft.program.params_schema
    return [] if schema is None else check_parameters(schema, parse_json(params))


def _cancel(draft: TurnState, event: CancelRequested) -> Reply:
    run = draft.opens.get(event.execute_number)
    if run is None:
        return _no_execution(draft, event.execute_number)
    drop(draft, run, event.reason)
    return Taken()


def _release(draft: TurnState, event: Released) -> Reply:
    run = draft.opens.get(event.execute_number)
    if run is None:
        return _no_execution(draft, event.execute_number)
    if not run.held:
        return Unchanged()
    released = draft.keep(replace(run, held=False))
    if released.state is ExecutionState.ENQUEUED:
        admit(draft, released)
    return Taken()


def _no_execution(draft: TurnState, number: int) -> Reply:
    if 1 <= number <= draft.head.execute_number:
        return Refusal(RefusalCode.CONFLICT, f"execution {number} has ended", "/executionId")
    return Refusal(RefusalCode.ABSENT, f"there is no execution {number}", "/executionId")
