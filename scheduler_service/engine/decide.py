"""decide(): the one entry to the behaviour of a job, from an event to effects."""

from scheduler_service.domain.document import (
    Calling,
    Checking,
    CheckWaiting,
    Context,
    Open,
    PartsOpen,
    PartsQueued,
    Resolving,
    Retrying,
)
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.moments import Now
from scheduler_service.domain.records import exchange_of
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    Backfilled,
    CallEnded,
    CancelRequested,
    Created,
    Destroyed,
    Event,
    FeedbackArrived,
    HandedOver,
    InstanceLost,
    InstancesResolved,
    LeasesChanged,
    MissedCounted,
    PartEnded,
    PartProgressed,
    Paused,
    Released,
    Replanned,
    Resumed,
    Triggered,
    Unsent,
    Updated,
)
from scheduler_service.domain.wire import Fault, FaultKind
from scheduler_service.engine.admission import admit, drop, start_queued
from scheduler_service.engine.attempt import Broken, fail
from scheduler_service.engine.cancellation import abandon, call_cancel_url, token_of
from scheduler_service.engine.chain import begin_again, handle_answer, record_step
from scheduler_service.engine.check_polling import handle_check, record_check, send_check
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.feedback import handle_feedback
from scheduler_service.engine.firing import (
    count_from_end,
    fire_due,
    follow_calendar,
    handle_count,
    repeat_counts,
    replan,
)
from scheduler_service.engine.lifecycle import activate, answer_existing, create, destroy, pause, update
from scheduler_service.engine.notification_events import (
    OWN_FAULT,
    TIMEOUT,
    failure_event,
    keep_last_events,
    notify,
)
from scheduler_service.engine.parts.holders import handle_lease_changes, wait_on
from scheduler_service.engine.parts.instance_parts import handle_instances, handle_part_answer
from scheduler_service.engine.parts.join import record_open_parts
from scheduler_service.engine.parts.lost_instance_work import handle_loss
from scheduler_service.engine.parts.queue import handle_part_end, handle_part_progress, record_queued_parts
from scheduler_service.engine.resuming import hand_over, resume_calls, send_unsent
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.triggering import backfill, submit_due_triggers, trigger
from scheduler_service.engine.turn_state import TurnState, replace

OWN_JOB = Refusal(
    RefusalCode.CONFLICT,
    "this is a system job: it can be triggered and paused, but not replaced or destroyed",
    "/jobId",
)
NO_JOB = Refusal(RefusalCode.ABSENT, "there is no such job", "/jobId")


def decide(job: Job, event: Event, now: Now) -> Decision:
    """The new state of a job after `event`, with the effects to start, the records to keep and the reply.

    Pure: the same arguments always give the same decision. Never raises, whatever the event contains: the
    reply says what was refused. Without a job only `Created` has an effect.
    """
    document = job.document
    if document is None:
        return create(job, event, now) if isinstance(event, Created) else Decision(None, reply=NO_JOB)
    turn = TurnState(job, document, now)
    if turn.program.system and _replaces_or_destroys(job, event):
        return Decision(document, reply=OWN_JOB)
    if type(event) is Destroyed:
        return destroy(turn, event)
    if turn.program.timer.rule is not None:
        follow_calendar(turn, event)
    if type(event) is HandedOver:
        return turn.decision(hand_over(turn, event))  # nothing is started any more
    reply = _take(turn, event)
    if turn.opens:
        start_queued(turn)
    if turn.program.timer.from_end:
        count_from_end(turn)
    if turn.last_events:
        keep_last_events(turn)
    return turn.decision(reply)


def _replaces_or_destroys(job: Job, event: Event) -> bool:
    """Whether `event` would destroy the job or replace its definition by one that is not the system's."""
    if isinstance(event, Updated):
        return not job.programs[event.revision].system
    return isinstance(event, Destroyed)


def _take(turn: TurnState, event: Event) -> Reply:
    match event:
        case CallEnded():
            return _handle_call(turn, event)
        case AlarmRang():
            return _run_due(turn)
        case Triggered():
            return trigger(turn, event)
        case Backfilled():
            return backfill(turn, event)
        case FeedbackArrived():
            return handle_feedback(turn, event)
        case InstancesResolved():
            return handle_instances(turn, event)
        case InstanceLost():
            return handle_loss(turn, event)
        case PartEnded():
            return handle_part_end(turn, event)
        case PartProgressed():
            return handle_part_progress(turn, event)
        case LeasesChanged():
            return handle_lease_changes(turn, event)
        case Resumed(alive=alive, last_begun=last_begun, gone=gone):
            resume_calls(turn, frozenset(alive), last_begun, frozenset(gone))
            return _run_due(turn)
        case Unsent(token=token):
            return send_unsent(turn, token)
        case Created():
            return answer_existing(turn, event)
        case Updated():
            return update(turn, event)
        case Paused():
            return pause(turn, event)
        case Activated():
            return activate(turn, event)
        case CancelRequested():
            return _cancel(turn, event)
        case Released():
            return _release(turn, event)
        case Replanned(calendar=calendar):
            return replan(turn, calendar)
        case _:
            assert isinstance(event, MissedCounted), f"decide has no case for {event!r}"
            return handle_count(turn, event)


def _handle_call(turn: TurnState, event: CallEnded) -> Reply:
    """Takes the answer to the call that is awaited; late, repeated and foreign answers change nothing."""
    number = event.token.execute_number
    run, context = turn.opens.get(number), turn.contexts.get(number)
    if run is None or context is None:
        return handle_part_answer(turn, event)
    phase = context.phase
    if token_of(turn, run, phase) != event.token:
        return handle_part_answer(turn, event)
    if type(phase) is Calling:
        handle_answer(turn, run, phase, event.outcome)
    else:
        assert isinstance(phase, Checking), "no other phase waits for an answer"
        handle_check(turn, run, phase, event.outcome)
    return Taken()


def _run_due(turn: TurnState) -> Reply:
    """Does all that is due: first limits and waits, then delayed triggers, then the timer."""
    if turn.opens:  # few that ring have any
        for run in turn.live():
            _run_due_execution(turn, run)
        start_queued(turn)
        submit_due_triggers(turn)
    fire_due(turn)
    if turn.head.counting:
        repeat_counts(turn)
    return Taken()


def _run_due_execution(turn: TurnState, run: Open) -> None:
    context = turn.contexts.get(run.execute_number)
    if context is None:
        return
    now = turn.now.steady
    match context.phase:
        case Retrying(due=due, from_step=step):
            if due <= now:
                begin_again(turn, run, step)
        case PartsQueued(claimed_at=None) as phase if context.deadline <= now:
            wait_on(turn, run, phase)
        case _ if context.deadline <= now:
            _time_out(turn, run, context)
        case CheckWaiting(due=due) if due <= now:
            send_check(turn, run)


def _time_out(turn: TurnState, run: Open, context: Context) -> None:
    """Fails an attempt over its limit: stops what is in flight and calls `cancelUrl`."""
    program = turn.program_of(run)
    message = f"the attempt ran over timeoutSeconds ({program.timeout / 1000:g} s)"
    if isinstance(context.phase, Resolving):
        message += f" while it waited for an instance of {context.phase.service!r} that takes work"
    _record_call(turn, run, context, message)
    abandon(turn, run, context.phase)
    call_cancel_url(turn, run, context)
    code = TIMEOUT if program.asynchronous else OWN_FAULT
    step = getattr(context.phase, "step", len(program.steps) - 1)
    notify(turn, run, failure_event, code, code, message, timed_out=True)
    fail(turn, run, Broken(Failure(code, FailureType.TIMEOUT), message, step))


def _record_call(turn: TurnState, run: Open, context: Context, message: str) -> None:
    fault = Fault(FaultKind.TIMEOUT, message)
    match context.phase:
        case Calling() as calling:
            late = replace(fault, elapsed=max(turn.now.wall - calling.sent_at, 0))
            step = turn.program_of(run).steps[calling.step]
            record_step(turn, run, step, exchange_of(calling.request, late, calling.sent_at), TIMEOUT)
        case PartsOpen() as opened:
            record_open_parts(turn, run, opened, fault)
        case PartsQueued() as queued:
            record_queued_parts(turn, run, queued, fault)
        case Checking() as checking:
            record_check(turn, run, checking, fault, error=message)
        case _:
            pass


def _cancel(turn: TurnState, event: CancelRequested) -> Reply:
    run = turn.opens.get(event.execute_number)
    if run is None:
        return _no_execution(turn, event.execute_number)
    drop(turn, run, event.reason)
    return Taken()


def _release(turn: TurnState, event: Released) -> Reply:
    run = turn.opens.get(event.execute_number)
    if run is None:
        return _no_execution(turn, event.execute_number)
    if not run.held:
        return Unchanged()
    released = turn.put(replace(run, held=False))
    if released.state is ExecutionState.ENQUEUED:
        admit(turn, released)
    return Taken()


def _no_execution(turn: TurnState, number: int) -> Reply:
    job_id = turn.program.job_id
    if 1 <= number <= turn.head.execute_number:
        return Refusal(
            RefusalCode.CONFLICT, f"execution {number} of the job {job_id!r} has ended", "/executionId"
        )
    return Refusal(RefusalCode.ABSENT, f"the job {job_id!r} has no execution {number}", "/executionId")
