"""Feedback of a target: fenced by token and attempt, recorded, told, and where it decides, obeyed."""

import hmac

from scheduler_service.domain.document import (
    Calling,
    Checking,
    CheckWaiting,
    FeedbackAwaited,
    Open,
    PartsAwaited,
    PartsOpen,
    PartsQueued,
    Report,
    Resolving,
)
from scheduler_service.domain.events import FeedbackArrived
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import FeedbackSeen
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Taken, Unchanged
from scheduler_service.engine.notification_events import notify, report_event
from scheduler_service.engine.parts.feedback import find_verdict, handle_part_report
from scheduler_service.engine.scope import feedback_token
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.engine.verdicts import Unreadable, has_decided, read_report, settle

FEEDBACK_STATUS = "200"
BY_PART = (PartsOpen, PartsQueued, PartsAwaited)


def handle_feedback(turn: TurnState, event: FeedbackArrived) -> Reply:
    """One report (SPEC section 5): token first, then the report's form, then whether it is awaited."""
    expected = feedback_token(turn.head.key, turn.head.uid, event.request_counts)
    if not hmac.compare_digest(expected.encode(), event.token.encode("utf-8", "replace")):
        return Refusal(
            RefusalCode.FORBIDDEN,
            f"the token does not belong to requestCounts {event.request_counts} of this job; "
            "use the feedback URL as it was given",
            "/token",
        )
    report = read_report(event.body)
    if isinstance(report, Unreadable):
        return Refusal(RefusalCode.INVALID, report.message, report.pointer)
    run = _awaited(turn, event.request_counts)
    if run is None:
        return _refuse_stale(turn, event, report)
    phase = turn.contexts[run.execute_number].phase
    if isinstance(phase, BY_PART) and phase.verdicts:
        known = find_verdict(phase.verdicts, event.shard)
        if isinstance(known, Refusal):
            return known
        if known is not None:
            return Unchanged() if known == report else _refuse_stale(turn, event, report)
    return _take(turn, run, report, event.shard)


def _awaited(turn: TurnState, request_counts: int) -> Open | None:
    for run in turn.opens.values():
        if run.request_counts == request_counts and run.state is ExecutionState.PROCESSING:
            return run if run.execute_number in turn.contexts else None
    return None


def _take(turn: TurnState, run: Open, report: Report, shard: int | None) -> Reply:
    number = run.execute_number
    _record(turn, number, run.request_counts, report, shard, stale=False)
    turn.change_context(run, progress=report.progress or turn.contexts[number].progress)
    turn.record_execution(run)
    notify(turn, run, report_event, report, FEEDBACK_STATUS)
    match turn.contexts[number].phase:
        case FeedbackAwaited() if report.status:
            settle(turn, run, report)
        case CheckWaiting():
            turn.change_context(run, phase=CheckWaiting(turn.now.steady))
        case Checking():  # its answer may be older than this report: the next check follows at once
            turn.change_context(run, verdict=report)
        case Calling() if report.status and turn.program_of(run).asynchronous:
            turn.change_context(run, verdict=report)
        case Resolving() | PartsOpen() | PartsQueued() | PartsAwaited() as phase if report.status:
            handle_part_report(turn, run, phase, report, shard)
        case _:
            pass  # progress alone
    return Taken()


def _refuse_stale(turn: TurnState, event: FeedbackArrived, report: Report) -> Reply:
    request_counts = event.request_counts
    ended = next((end for end in turn.head.ended if end.request_counts == request_counts), None)
    if ended is not None and has_decided(ended.digest, report, event.shard):
        return Unchanged()
    number = ended.execute_number if ended else 0
    _record(turn, number, request_counts, report, event.shard, stale=True)
    return Refusal(
        RefusalCode.STALE,
        f"no attempt with requestCounts {request_counts} waits for feedback: it has ended or never was",
        "/requestCounts",
    )


def _record(
    turn: TurnState, number: int, request_counts: int, report: Report, part: int | None, *, stale: bool
) -> None:
    seen = FeedbackSeen(number, request_counts, turn.now.wall, report.body, stale, part=part)
    turn.records.append(seen)
