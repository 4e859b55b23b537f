"""Ends what a lost instance had taken in hand: an attempt, or a part of it (SPEC section 13)."""

from scheduler_service.domain.document import (
    Checking,
    CheckWaiting,
    Context,
    InHand,
    Open,
    PartsAwaited,
    Report,
    Retrying,
)
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.registered_services import LEFT, SILENT, Loss
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import InstanceLost
from scheduler_service.domain.wire import CallKind
from scheduler_service.engine.attempt import Broken, fail
from scheduler_service.engine.cancellation import abandon
from scheduler_service.engine.notification_events import failure_event, notify
from scheduler_service.engine.parts.dispatch import find_run
from scheduler_service.engine.parts.join import INSTANCE_LOST, settle_reports
from scheduler_service.engine.parts.watches import find_taken
from scheduler_service.engine.program import Program
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.target_reports import FAILED_WORD
from scheduler_service.engine.turn_state import TurnState, replace

REMEDY = (
    "its work was not reported as ended: start it again, or let a retry policy name instance_lost, so that "
    "another instance does the work"
)


def handle_loss(turn: TurnState, event: InstanceLost) -> Reply:
    """Ends what waits for the instance; a loss that comes after the end changes nothing."""
    run = find_run(turn, event.token)
    context = None if run is None else turn.contexts[run.execute_number]
    if run is None or context is None or isinstance(context.phase, Retrying):
        return Unchanged()
    found = None if event.token.kind is not CallKind.WATCH else find_taken(context, event.token.serial)
    if found is None:
        return Unchanged()
    taken, part = found
    text = _describe(taken, part, event.loss)
    last = len(turn.program_of(run).steps) - 1
    if isinstance(context.phase, PartsAwaited) and taken.step == last:
        return _end_part(turn, run, context.phase, part, text)
    if context.verdict is not None and _counts(turn.program_of(run), context):
        return Unchanged()
    _end_attempt(turn, run, context, taken, text)
    return Taken()


def _counts(program: Program, context: Context) -> bool:
    """Whether the report that came while the chain ran decides at the end of the chain (SPEC section 5)."""
    return program.check is None and not isinstance(context.phase, (CheckWaiting, Checking))


def _describe(taken: InHand, part: int, loss: Loss) -> str:
    moment = rfc3339(loss.since)
    if loss.how == SILENT:
        said = f"no heartbeat since {moment}"
    elif loss.how == LEFT:
        said = f"it deregistered at {moment}"
    else:
        said = f"it has not registered since the scheduler started at {moment}"
    return f"instance {taken.instances[part]} of service {taken.service} is lost: {said}; {REMEDY}"


def _end_attempt(turn: TurnState, run: Open, context: Context, taken: InHand, text: str) -> None:
    turn.note(run, INSTANCE_LOST, text, step=taken.step)
    abandon(turn, run, context.phase)
    notify(turn, run, failure_event, INSTANCE_LOST, INSTANCE_LOST, text)
    fail(turn, run, Broken(Failure(INSTANCE_LOST, FailureType.LOST), text, taken.step))


def _end_part(turn: TurnState, run: Open, phase: PartsAwaited, part: int, text: str) -> Reply:
    """The part has failed; the others are awaited."""
    if phase.verdicts[part] is not None:
        return Unchanged()
    turn.note(run, INSTANCE_LOST, text)
    notify(turn, run, failure_event, INSTANCE_LOST, INSTANCE_LOST, text)
    lost = Report(status=FAILED_WORD, error=INSTANCE_LOST, message=text)
    verdicts = tuple(lost if place == part else known for place, known in enumerate(phase.verdicts))
    turn.change_context(run, phase=replace(phase, verdicts=verdicts))
    if None not in verdicts:
        settle_reports(turn, run, verdicts)
    return Taken()
