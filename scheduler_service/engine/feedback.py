"""Feedback of a target: checked by token and attempt, recorded, notified, and taken as the verdict."""

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
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import FeedbackSeen
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import FeedbackArrived
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.notification_events import notify, report_event
from scheduler_service.engine.parts.join import Verdicts, settle_reports
from scheduler_service.engine.target_reports import UnreadableReport, has_decided, read_report, settle
from scheduler_service.engine.turn_state import TurnState, replace

FEEDBACK_STATUS = "200"
BY_PART = (PartsOpen, PartsQueued, PartsAwaited)


def handle_feedback(turn: TurnState, event: FeedbackArrived) -> Reply:
    """Takes one report (SPEC section 5). Checks its token, then its form, then whether it is awaited."""
    expected = feedback_token(turn.head.key, turn.head.uid, event.request_counts)
    if not hmac.compare_digest(expected.encode(), event.token.encode("utf-8", "replace")):
        return Refusal(
            RefusalCode.FORBIDDEN,
            f"the token does not belong to requestCounts {event.request_counts} of this job; "
            "use the feedback URL as it was given",
            "/token",
        )
    report = read_report(event.body, expected)
    if isinstance(report, UnreadableReport):
        return Refusal(RefusalCode.INVALID, report.message, report.pointer)
    run = _awaited(turn, event.request_counts)
    if run is None:
        return _refuse_stale(turn, event, report)
    phase = turn.contexts[run.execute_number].phase
    if isinstance(phase, BY_PART) and phase.verdicts:
        known = _find_verdict(phase.verdicts, event.shard)
        if isinstance(known, Refusal):
            return known
        if known is not None:
            return Unchanged() if known == report else _refuse_stale(turn, event, report)
    return _take(turn, run, event, report)


def _awaited(turn: TurnState, request_counts: int) -> Open | None:
    for run in turn.opens.values():
        if run.request_counts == request_counts and run.state is ExecutionState.PROCESSING:
            return run if run.execute_number in turn.contexts else None
    return None


def _take(turn: TurnState, run: Open, event: FeedbackArrived, report: Report) -> Reply:
    number = run.execute_number
    _record(turn, number, event, report, run.trace)
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
            _handle_part_report(turn, run, phase, report, event.shard)
        case _:
            pass  # no verdict: progress only
    return Taken()


def _handle_part_report(
    turn: TurnState,
    run: Open,
    phase: Resolving | PartsOpen | PartsQueued | PartsAwaited,
    report: Report,
    shard: int | None,
) -> None:
    """Takes a verdict while parts are in flight, or while only reports are missing."""
    if isinstance(phase, Resolving) or not phase.verdicts:
        # Parts of an earlier step share the URL, and the report of one is not the verdict of the whole step.
        if shard is None and turn.program_of(run).asynchronous:
            turn.change_context(run, verdict=report)
        return
    verdicts = tuple(report if place == shard else known for place, known in enumerate(phase.verdicts))
    turn.change_context(run, phase=replace(phase, verdicts=verdicts))
    if isinstance(phase, PartsAwaited) and None not in verdicts:
        settle_reports(turn, run, verdicts)


def _find_verdict(verdicts: Verdicts, shard: int | None) -> Report | Refusal | None:
    """The verdict that part `shard` has reported, or None. A Refusal: there is no such part."""
    if shard is not None and 0 <= shard < len(verdicts):
        return verdicts[shard]
    named = "names none" if shard is None else f"names {shard}"
    return Refusal(
        RefusalCode.INVALID,
        f"each of the {len(verdicts)} parts of this step reports for itself, and this report {named}; "
        "use the feedback URL as it was given, with its shard",
        "/shard",
    )


def _refuse_stale(turn: TurnState, event: FeedbackArrived, report: Report) -> Reply:
    request_counts = event.request_counts
    ended = next((end for end in turn.head.ended if end.request_counts == request_counts), None)
    if ended is not None and has_decided(ended.digest, report, event.shard):
        return Unchanged()
    number = ended.execute_number if ended else 0
    _record(turn, number, event, report, stale=True)
    return Refusal(
        RefusalCode.STALE,
        f"no attempt with requestCounts {request_counts} waits for feedback: it has ended or never was",
        "/requestCounts",
    )


def _record(
    turn: TurnState,
    number: int,
    event: FeedbackArrived,
    report: Report,
    trace: str = "",
    *,
    stale: bool = False,
) -> None:
    turn.records.append(
        FeedbackSeen(
            number,
            event.request_counts,
            turn.now.wall,
            report.body,
            stale,
            part=event.shard,
            trace=trace,
            reporter=event.trace,
        )
    )
