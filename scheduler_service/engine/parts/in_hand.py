"""Ends what a lost instance had taken in hand: an attempt, or a part of it (SPEC section 13)."""

from scheduler_service.domain.document import Context, Open, PartsAwaited, Report
from scheduler_service.domain.events import InstanceLost
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.wire import CallKind
from scheduler_service.engine.attempt import Broken, abandon, fail
from scheduler_service.engine.notification_events import failure_event, notify
from scheduler_service.engine.parts.dispatch import AWAITING, find_run
from scheduler_service.engine.parts.join import INSTANCE_LOST, settle_reports
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.turn_state import TurnState, replace
from scheduler_service.engine.verdicts import FAILED_WORD


def handle_loss(turn: TurnState, event: InstanceLost) -> Reply:
    """Ends what waits for the instance; a loss that comes after the end changes nothing."""
    run = find_run(turn, event.token)
    context = None if run is None else turn.contexts[run.execute_number]
    if run is None or context is None or context.in_hand is None or not isinstance(context.phase, AWAITING):
        return Unchanged()
    part = event.token.serial
    if event.token.kind is not CallKind.WATCH or not any(context.in_hand.instances[part : part + 1]):
        return Unchanged()
    text = (
        f"instance {context.in_hand.instances[part]} of {context.in_hand.service} is lost: it sent no "
        "heartbeat, or deregistered, and did not report the end of its work"
    )
    phase = context.phase
    if isinstance(phase, PartsAwaited):
        return _end_part(turn, run, phase, part, text)
    turn.note(run, INSTANCE_LOST, text)
    _end_attempt(turn, run, context, text)
    return Taken()


def _end_attempt(turn: TurnState, run: Open, context: Context, text: str) -> None:
    abandon(turn, run, context.phase)
    notify(turn, run, failure_event, INSTANCE_LOST, INSTANCE_LOST, text)
    last = len(turn.program_of(run).steps) - 1
    fail(turn, run, Broken(Failure(INSTANCE_LOST, FailureType.LOST), text, last))


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
