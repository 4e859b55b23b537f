"""After a crash or a failed write: calls no longer in flight are sent again, or their execution is lost."""

from collections.abc import Callable

from scheduler_service.domain.document import (
    HELD,
    Calling,
    Checking,
    CheckWaiting,
    Context,
    Open,
    PartsOpen,
    PartsQueued,
    Phase,
    Retrying,
)
from scheduler_service.domain.effects import Call
from scheduler_service.domain.execution import ExecutionState, FailureType, TriggeredBy
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.step_parts import QueueOptions
from scheduler_service.domain.turn_events import HandedOver
from scheduler_service.domain.wire import LastBegun, Token
from scheduler_service.engine.admission import start_late
from scheduler_service.engine.attempt import Broken, fail, finish
from scheduler_service.engine.cancellation import LOST_ORDINAL, bare_context, token_of
from scheduler_service.engine.outbound_requests import sent_again
from scheduler_service.engine.parts.dispatch import queue_timeout_of, resend_parts, token_of_part
from scheduler_service.engine.parts.queue import withdraw_all
from scheduler_service.engine.parts.watches import watch_instances
from scheduler_service.engine.retry import Failure, GiveUp
from scheduler_service.engine.turn_state import TurnState, replace

LOST = "lost"


def resume_calls(
    turn: TurnState,
    alive: frozenset[Token],
    last_begun: LastBegun | None = None,
    gone: frozenset[Token] = frozenset(),
) -> None:
    """Resumes every open execution of a job that was just loaded (SPEC section 8).

    One without a context is lost, unless `last_begun` says that nothing of it was sent. So is one of qos 0 of
    which a call is `gone`.
    """
    for run in turn.live():
        context = turn.contexts.get(run.execute_number)
        if context is None:
            if last_begun is not None and _has_sent_nothing(turn, run, last_begun):
                start_late(turn, run)
            else:
                end_lost(turn, run)
            continue
        if gone and not run.qos and _awaits(turn, run, context.phase, gone):
            end_lost(turn, run)
            continue
        if run.holder != turn.holder:
            run, context = _take_over(turn, run, context, alive)
        _resend(turn, run, context, lambda token: token not in alive)
        watch_instances(turn, run, context)


def send_unsent(turn: TurnState, token: Token) -> Reply:
    """Sends a call that never left, byte for byte, if it is awaited and this node holds its execution."""
    run = turn.opens.get(token.execute_number)
    context = turn.contexts.get(token.execute_number)
    if run is None or context is None or run.holder != turn.holder:
        return Unchanged()
    _resend(turn, run, context, token.__eq__)
    return Taken()


def hand_over(turn: TurnState, event: HandedOver) -> Reply:
    """Lets go of the executions that this process holds: `resume_calls` takes them up, wherever that is."""
    for run in turn.live():
        if run.holder != turn.holder:
            continue
        if run.execute_number in event.unanswered and not run.qos:
            turn.contexts.pop(run.execute_number, None)
        turn.put(replace(run, holder=None))
    return Taken()


def end_lost(turn: TurnState, run: Open) -> None:
    """Ends an execution whose context its process or its store has lost: failed, terminated, `lost`."""
    message = "the process that ran this execution ended, and with qos 0 its context is not durable"
    if run.qos:
        message = "the store of contexts (contexts.url) has lost the context of this execution"
    broken = Broken(Failure(LOST, FailureType.LOST), message, 0)
    withdraw_all(turn, run)
    # The final notification needs a context to number its deliveries; lost numbers are not used again.
    turn.contexts[run.execute_number] = bare_context(turn, LOST_ORDINAL)
    if run.state is ExecutionState.PROCESSING:
        fail(turn, run, broken, give_up=GiveUp(LOST))
    else:
        finish(turn, run, ExecutionState.TERMINATED, reason=LOST, broken=broken)


def _has_sent_nothing(turn: TurnState, run: Open, last: LastBegun) -> bool:
    """Whether the execution may begin again: it is as it started, and late enough only where that is wanted.

    Parts in a queue may have been claimed as soon as they were durable.
    """
    program = turn.program_of(run)
    timer = program.timer
    is_too_late = turn.now.wall - run.planned_at > timer.misfire_grace and timer.misfire_policy == "skip"
    return (
        run.holder == last.holder
        and run.started_at is not None
        and run.started_at > last.moment
        and run.state is ExecutionState.PROCESSING
        and run.attempts == 1
        and not (is_too_late and run.triggered_by is TriggeredBy.TIMER)
        and not isinstance(program.steps[run.from_step].dispatch, QueueOptions)
    )


def _awaits(turn: TurnState, run: Open, phase: Phase, calls: frozenset[Token]) -> bool:
    """Whether a step of the execution waits for one of `calls`: a check may be repeated."""
    if isinstance(phase, Calling):
        return token_of(turn, run, phase) in calls
    return isinstance(phase, PartsOpen) and any(
        part.end is None and part.request is not None and token_of_part(turn, run, part) in calls
        for part in phase.parts
    )


def _take_over(turn: TurnState, run: Open, context: Context, alive: frozenset[Token]) -> tuple[Open, Context]:
    """Downtime does not use up the target's time: the limit is at least min(timeout, 60 s) from now.

    There was none where a node has given the job away and its call goes on. The limit ends no later than its
    whole length from now, and a wait no later than its own: steady time goes back where the clock was set
    back while no process ran.
    """
    now, timeout = turn.now.steady, turn.program_of(run).timeout
    phase, longest = context.phase, timeout
    match phase:
        case Retrying(due=due, wait=int(wait)) | CheckWaiting(due=due, wait=int(wait)):
            phase = replace(phase, due=min(due, now + wait))
        case PartsQueued(claimed_at=None):
            longest += queue_timeout_of(turn, run, phase)
        case PartsQueued(claimed_at=int(claimed_at)):
            phase = replace(phase, claimed_at=min(claimed_at, now))
    deadline = context.deadline
    token = token_of(turn, run, phase)
    goes_on = token in alive if token is not None else not isinstance(phase, PartsOpen)
    if deadline < HELD and not (run.holder is None and goes_on):
        deadline = min(max(deadline, now + min(timeout, MINUTE)), now + longest)
    taken = turn.put(replace(run, holder=turn.holder))
    return taken, turn.change_context(run, phase=phase, deadline=deadline)


def _resend(turn: TurnState, run: Open, context: Context, is_lost: Callable[[Token], bool]) -> None:
    token = token_of(turn, run, context.phase)
    if token is None:
        resend_parts(turn, run, context.phase, is_lost)
        return
    if not is_lost(token):
        return
    assert isinstance(context.phase, (Calling, Checking))
    turn.effects.append(Call(token, sent_again(turn, run, context.phase.request)))
