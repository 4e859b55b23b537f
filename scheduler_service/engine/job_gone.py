"""A target that answers 410 with `X-Job-State: gone`: no retry, and the job is paused (SPEC section 13)."""

from scheduler_service.domain.document import Open
from scheduler_service.domain.effects import ReportPause
from scheduler_service.domain.execution import ExecutionState, FiringOutcome, TriggeredBy
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.attempt import Broken, cancel, fail
from scheduler_service.engine.retry import GiveUp
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.engine.verdicts import find_header

GONE, JOB_GONE = "gone", "jobGone"
GONE_STATUS = 410
_HEADER = "x-job-state"


def says_gone(answer: Answer) -> bool:
    """Whether the answer says that the target no longer knows the job."""
    return (find_header(answer.headers, _HEADER) or "").strip().lower() == GONE


def pause_gone(turn: TurnState, run: Open, broken: Broken) -> None:
    """Ends the execution without a retry and pauses the job with the reason `gone`.

    Other running executions go on to their own end; waiting timer firings are skipped.
    """
    turn.note(run, JOB_GONE, "the target no longer knows this job (410 with X-Job-State: gone)")
    fail(turn, run, broken, give_up=GiveUp(GONE))
    if not turn.head.active:
        return
    turn.change_head(active=False, paused_at=turn.now.wall, pause_reason=GONE, updated_at=turn.now.wall)
    turn.effects.append(ReportPause(GONE, run.execute_number))
    for other in list(turn.opens.values()):
        if other.triggered_by is TriggeredBy.TIMER and other.state is ExecutionState.ENQUEUED:
            turn.record_firing(other, FiringOutcome.SKIPPED, GONE)
            cancel(turn, other, GONE)
