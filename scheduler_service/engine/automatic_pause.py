"""A job that the service pauses by itself: after failures in a row, or gone (SPEC section 6)."""

from scheduler_service.domain.audit_acts import Act, OwnAct, act_of_system
from scheduler_service.domain.document import Open
from scheduler_service.domain.effects import ReportPause
from scheduler_service.domain.execution import PLANNED, WAITING, FiringOutcome
from scheduler_service.domain.records import Audited
from scheduler_service.engine.cancellation import cancel
from scheduler_service.engine.turn_state import TurnState

GONE, FAILURES = "gone", "failures"
"""Why the service pauses a job by itself."""


def count_failures(turn: TurnState, run: Open, most: int, *, has_failed: bool, reason: str | None) -> None:
    """Counts failures in a row, in the order of their ends; cancelled and skipped ones do not count."""
    failures = turn.head.failures + 1 if has_failed else 0
    if failures != turn.head.failures:
        turn.change_head(failures=failures)
    if failures >= most and reason != GONE:  # that pauses the job by itself
        pause_by_end(turn, run, FAILURES, act_of_system(OwnAct.PAUSE_OF_FAILURES, failures=str(failures)))


def pause_by_end(turn: TurnState, run: Open, reason: str, act: Act) -> None:
    """The service pauses the job by how this execution ended.

    Other running executions go on to their own end; waiting timer firings are skipped.
    """
    if not turn.head.active:
        return
    turn.change_head(active=False, paused_at=turn.now.wall, pause_reason=reason, updated_at=turn.now.wall)
    turn.effects.append(ReportPause(reason, run.execute_number))
    turn.records.append(Audited(act, 200, run.execute_number, turn.head.revision))
    for other in list(turn.opens.values()):
        if other.triggered_by in PLANNED and other.state in WAITING:
            turn.record_firing(other, FiringOutcome.SKIPPED, reason)
            cancel(turn, other, reason)
