"""The end of an attempt that ran over its limit of time."""

from scheduler_service.domain.document import Calling, Checking, Context, Open, PartsOpen, PartsQueued
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import exchange_of
from scheduler_service.domain.wire import Fault, FaultKind
from scheduler_service.engine.attempt import Broken, abandon, call_cancel_url, fail
from scheduler_service.engine.chain import record_step
from scheduler_service.engine.checking import record_check
from scheduler_service.engine.notification_events import OWN_FAULT, TIMEOUT, failure_event, notify
from scheduler_service.engine.parts.join import record_open_parts
from scheduler_service.engine.parts.queue import record_queued_parts
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.turn_state import TurnState


def time_out(turn: TurnState, run: Open, context: Context) -> None:
    """Fails an attempt over its limit: stops what is in flight and calls `cancelUrl`."""
    program = turn.program_of(run)
    message = f"the attempt ran over timeoutSeconds ({program.timeout / 1000:g} s)"
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
            elapsed = Fault(FaultKind.TIMEOUT, message, max(turn.now.wall - calling.sent_at, 0))
            step = turn.program_of(run).steps[calling.step]
            record_step(turn, run, step, exchange_of(calling.request, elapsed, calling.sent_at), TIMEOUT)
        case PartsOpen() as opened:
            record_open_parts(turn, run, opened, fault)
        case PartsQueued() as queued:
            record_queued_parts(turn, run, queued, fault)
        case Checking() as checking:
            record_check(turn, run, checking, fault, error=message)
        case _:
            pass
