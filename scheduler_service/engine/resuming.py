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
from scheduler_service.engine.parts.outbound import send_parts_again
from scheduler_service.engine.parts.queue import withdraw_all
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.turn_state import TurnState, replace

LOST = "lost"


def resume_calls(draft: TurnState, alive: frozenset[Token], away: frozenset[Holder] = frozenset()) -> None:
    """Looks at every open execution of a job that was just loaded (SPEC section 8).

    What a node of `away` holds is left alone: it lives, and hands over what it knows (`adopt`).
    """
    for run in draft.live():
        if run.holder in away:
            continue
        context = draft.contexts.get(run.execute_number)
        if context is None:
            lose(draft, run)
            continue
        if run.holder != draft.holder:
            run, context = _take_over(draft, run, context)
        _send_again(draft, run, context, lambda token: token not in alive)


def send_unsent(draft: TurnState, token: Token) -> Reply:
    """Makes a call that never left, byte for byte, where it is awaited and this node has its execution."""
    run = draft.opens.get(token.execute_number)
    context = draft.contexts.get(token.execute_number)
    if run is None or context is None or run.holder != draft.holder:
        return Unchanged()
    _send_again(draft, run, context, token.__eq__)
    return Taken()


def adopt(draft: TurnState, event: Adopted) -> Reply:
    """Takes over the executions that `event.holder` ran; those that moved on meanwhile stay as they are."""
    given = event.document
    if given is None or given.head.uid != draft.head.uid:
        return Unchanged()
    counts = {run.execute_number: run.request_counts for run in given.head.opens}
    for run in draft.live():
        if run.holder != event.holder or counts.get(run.execute_number) != run.request_counts:
            continue
        context = given.contexts.get(run.execute_number)
        if context is not None:
            draft.contexts.setdefault(run.execute_number, context)  # what is durable is no older
            draft.keep(replace(run, holder=draft.holder))
    return Taken()


def lose(draft: TurnState, run: Open) -> None:
    """An execution whose context went down with its process ends: failed, terminated, `lost`."""
    failure = Failure(LOST, FailureType.LOST)
    message = "the process that ran this execution ended, and with qos 0 its context is not durable"
    ended = AttemptEnded(
        run.execute_number, run.request_counts, draft.now.wall, LOST, FailureType.LOST, message
    )
    withdraw_all(draft, run)
    if run.state is ExecutionState.PROCESSING:
        draft.records.append(ended)
        remember_end(draft, run, b"")
        run = draft.keep(replace(run, state=ExecutionState.FAILED))
    # A final notification needs a context to count its deliveries in; numbers of the lost one are not reused.
    draft.contexts[run.execute_number] = bare_context(draft, LOST_ORDINAL)
    finish(draft, run, ExecutionState.TERMINATED, reason=LOST, broken=Broken(failure, message, 0))


def _take_over(draft: TurnState, run: Open, context: Context) -> tuple[Open, Context]:
    """Downtime is not held against the target: its limit ends no sooner than min(timeout, 60 s) from now."""
    least = draft.now.steady + min(draft.program_of(run).timeout, MINUTE)
    taken = draft.keep(replace(run, holder=draft.holder))
    return taken, draft.adjust(run.execute_number, deadline=max(context.deadline, least))


def _send_again(draft: TurnState, run: Open, context: Context, is_lost: Callable[[Token], bool]) -> None:
    token = token_of(draft, run, context.phase)
    if token is None:
        send_parts_again(draft, run, context.phase, is_lost)
        return
    if not is_lost(token):
        return
    assert isinstance(context.phase, (Calling, Checking))
    draft.effects.append(Call(token, context.phase.request))
