"""After a crash or a failed write: calls that nobody runs are sent again, or their execution is lost."""

from collections.abc import Callable

from scheduler_service.domain.document import Calling, Checking, Context, Open
from scheduler_service.domain.effects import Call
from scheduler_service.domain.events import Adopted
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.wire import Holder, Token
from scheduler_service.engine.attempt import (
    LOST_ORDINAL,
    Broken,
    bare_context,
    finish,
    remember_end,
    token_of,
)
from scheduler_service.engine.parts.outbound import resend_parts
from scheduler_service.engine.parts.queue import withdraw_all
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.turn_state import TurnState, replace

LOST = "lost"


def resume_calls(turn: TurnState, alive: frozenset[Token], away: frozenset[Holder] = frozenset()) -> None:
    """Looks at every open execution of a job that was just loaded (SPEC section 8).

    What a node of `away` holds is left alone: it lives, and hands over what it knows (`adopt`).
    """
    for run in turn.live():
        if run.holder in away:
            continue
        context = turn.contexts.get(run.execute_number)
        if context is None:
            end_lost(turn, run)
            continue
        if run.holder != turn.holder:
            run, context = _take_over(turn, run, context)
        _resend(turn, run, context, lambda token: token not in alive)


def send_unsent(turn: TurnState, token: Token) -> Reply:
    """Makes a call that never left, byte for byte, where it is awaited and this node has its execution."""
    run = turn.opens.get(token.execute_number)
    context = turn.contexts.get(token.execute_number)
    if run is None or context is None or run.holder != turn.holder:
        return Unchanged()
    _resend(turn, run, context, token.__eq__)
    return Taken()


def adopt(turn: TurnState, event: Adopted) -> Reply:
    """Takes over the executions that `event.holder` ran; those that moved on meanwhile stay as they are."""
    given = event.document
    if given is None or given.head.uid != turn.head.uid:
        return Unchanged()
    counts = {run.execute_number: run.request_counts for run in given.head.opens}
    for run in turn.live():
        if run.holder != event.holder or counts.get(run.execute_number) != run.request_counts:
            continue
        context = given.contexts.get(run.execute_number)
        if context is not None:
            turn.contexts.setdefault(run.execute_number, context)  # what is durable is no older
            turn.put(replace(run, holder=turn.holder))
    return Taken()


def end_lost(turn: TurnState, run: Open) -> None:
    """An execution whose context went down with its process ends: failed, terminated, `lost`."""
    failure = Failure(LOST, FailureType.LOST)
    message = "the process that ran this execution ended, and with qos 0 its context is not durable"
    ended = AttemptEnded(
        run.execute_number, run.request_counts, turn.now.wall, LOST, FailureType.LOST, message
    )
    withdraw_all(turn, run)
    if run.state is ExecutionState.PROCESSING:
        turn.records.append(ended)
        remember_end(turn, run, b"")
        run = turn.put(replace(run, state=ExecutionState.FAILED))
    # A final notification needs a context to count its deliveries in; numbers of the lost one are not reused.
    turn.contexts[run.execute_number] = bare_context(turn, LOST_ORDINAL)
    finish(turn, run, ExecutionState.TERMINATED, reason=LOST, broken=Broken(failure, message, 0))


def _take_over(turn: TurnState, run: Open, context: Context) -> tuple[Open, Context]:
    """Downtime is not held against the target: its limit ends no sooner than min(timeout, 60 s) from now."""
    least = turn.now.steady + min(turn.program_of(run).timeout, MINUTE)
    taken = turn.put(replace(run, holder=turn.holder))
    return taken, turn.change_context(run, deadline=max(context.deadline, least))


def _resend(turn: TurnState, run: Open, context: Context, is_lost: Callable[[Token], bool]) -> None:
    token = token_of(turn, run, context.phase)
    if token is None:
        resend_parts(turn, run, context.phase, is_lost)
        return
    if not is_lost(token):
        return
    assert isinstance(context.phase, (Calling, Checking))
    turn.effects.append(Call(token, context.phase.request))
