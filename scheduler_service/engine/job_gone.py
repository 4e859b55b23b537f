"""A target that says that the job is gone: no retry, and the job fires no more (SPEC section 13)."""

from scheduler_service.domain.document import Open
from scheduler_service.domain.execution import ExecutionState, FiringOutcome, TriggeredBy
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.attempt import Broken, cancel, finish, remember_end
from scheduler_service.engine.headers import find_header
from scheduler_service.engine.turn_state import TurnState, replace

GONE, JOB_GONE = "gone", "jobGone"
GONE_STATUS = 410
_HEADER = "x-job-state"


def says_gone(answer: Answer) -> bool:
    """Whether the answer says that the job is not known there any more."""
    return (find_header(answer.headers, _HEADER) or "").strip().lower() == GONE


def pause_gone(turn: TurnState, run: Open, broken: Broken) -> None:
    """Ends the execution without a retry, and pauses the job with the reason `gone`.

    Other executions that run end by themselves; timer firings that wait are skipped.
    """
    turn.note(run, JOB_GONE, "the target no longer knows this job (410 with X-Job-State: gone)")
    _terminate(turn, run, broken)
    if not turn.head.active:
        return
    turn.change_head(active=False, paused_at=turn.now.wall, pause_reason=GONE, updated_at=turn.now.wall)
    for other in list(turn.opens.values()):
        if other.triggered_by is TriggeredBy.TIMER and other.state is ExecutionState.ENQUEUED:
            turn.record_firing(other, FiringOutcome.SKIPPED, GONE)
            cancel(turn, other, GONE)


def _terminate(turn: TurnState, run: Open, broken: Broken) -> None:
    failure = broken.failure
    remember_end(turn, run, b"")
    failed = turn.put(replace(run, state=ExecutionState.FAILED))
    turn.records.append(
        AttemptEnded(
            run.execute_number,
            run.request_counts,
            turn.now.wall,
            error=failure.code,
            failure_type=failure.failure_type,
            message=broken.message,
        )
    )
    finish(turn, failed, ExecutionState.TERMINATED, reason=GONE, broken=broken)
