"""Joins the results of a step's parts: one array, one error, one verdict (SPEC section 13)."""

from scheduler_service.domain.document import FeedbackAwaited, Open, PartsAwaited, PartsOpen, Report
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import Exchange, exchange_of
from scheduler_service.domain.step_parts import SPREAD, PartEnd
from scheduler_service.domain.texts import cut_message
from scheduler_service.domain.wire import Answer, Fault
from scheduler_service.engine.attempt import Broken, fail, keep_result, succeed
from scheduler_service.engine.chain import advance, record_step, refuse_sum
from scheduler_service.engine.notification_events import TIMEOUT, failure_event, notify
from scheduler_service.engine.program import Step
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.target_reports import DIGEST, FAILED_WORD, digest_of
from scheduler_service.engine.turn_state import TurnState, replace
from scheduler_service.language.json_values import NOT_TEXT, as_json, parse_response

PARTIAL, INSTANCE_LOST = "partial", "instance_lost"
DROPPED = Report(status="dropped")
"""The verdict of a part that no longer has to be done."""

Verdicts = tuple[Report | None, ...]


def record_open_parts(turn: TurnState, run: Open, phase: PartsOpen, fault: Fault) -> None:
    """Records the parts still in flight when the attempt ran out of time."""
    step = turn.program_of(run).steps[phase.step]
    for part in phase.parts:
        if part.request is None:
            continue
        late = replace(fault, elapsed=max(turn.now.wall - part.sent_at, 0))
        place = part.index if phase.route in SPREAD else None
        exchange = exchange_of(part.request, late, part.sent_at)
        record_step(turn, run, step, exchange, TIMEOUT, instance=part.instance, part=place)


def fit_body(turn: TurnState, ends: tuple[PartEnd | None, ...], end: PartEnd) -> PartEnd:
    """`end` as it is kept: the bodies of all parts together stay within the limit of one response.

    Where the process has no room for its body, it is kept without.
    """
    limit = turn.program.surroundings.response_bytes
    kept = sum(len(other.body or b"") for other in ends if other is not None)
    size = len(end.body or b"")
    if kept + size <= limit and not turn.lacks_room(size):
        return end
    return replace(end, body=None, truncated=True)


def finish_parts(
    turn: TurnState, run: Open, step: Step, ends: tuple[PartEnd, ...], url: str, verdicts: Verdicts
) -> None:
    """Ends the step when all its parts have: it succeeds if all did, else the attempt fails."""
    counted = tuple(end for end in ends if not end.dropped)
    values = [None if end.body is None else parse_response(end.body) for end in counted]
    array = as_json([None if value is NOT_TEXT else value for value in values])
    cut = any(end.truncated for end in counted)
    # Where one part's answer is no text, the whole is none for a template.
    joined = Answer(200, (), b"\xff" if NOT_TEXT in values else array, cut, 0, counted[0].url or url)
    broken = _judge(step, counted, len(ends)) or refuse_sum(turn, run, step, joined)
    error = broken.failure.code if broken else None
    whole = _exchange(turn, step, counted, url, array, broken)
    record_step(turn, run, step, whole, error)
    if broken is not None:
        timed_out = all(end.timed_out for end in counted if end.error)
        code = broken.failure.code
        notify(turn, run, failure_event, code, code, broken.message, timed_out=timed_out)
        fail(turn, run, broken)
        return
    advance(turn, run, step, joined, array)
    _await_reports(turn, run, _fill(ends, verdicts))


def settle_reports(turn: TurnState, run: Open, verdicts: Verdicts) -> None:
    """Ends an asynchronous attempt when every part has reported: it succeeds if all did."""
    counted = [report for report in verdicts if report is not None and report.status != DROPPED.status]
    failed = [report for report in counted if report.status == FAILED_WORD]
    if not failed:
        if turn.program_of(run).keeps_result:
            keep_result(turn, run, b"[%b]" % b",".join(report.body for report in counted))
        succeed(turn, run, _digest(verdicts))
        return
    last = len(turn.program_of(run).steps) - 1
    if len(failed) < len(counted):
        text = _lead(_said(failed[0]), len(failed), len(counted))
        failure = Failure(PARTIAL, FailureType.PARTIAL)
    else:
        text = _said(failed[0])
        code = failed[0].error or FAILED_WORD
        failure = Failure(code, FailureType.LOST if code == INSTANCE_LOST else FailureType.BUSINESS)
    fail(turn, run, Broken(failure, text, last), _digest(verdicts))


def _digest(verdicts: Verdicts) -> bytes:
    """The digest of each part's report, so that a repetition is recognised; none matches a dropped part."""
    return b"".join(
        digest_of(report) if report is not None and report.status != DROPPED.status else bytes(DIGEST)
        for report in verdicts
    )


def _judge(step: Step, ends: tuple[PartEnd, ...], total: int) -> Broken | None:
    """Why the step fails, or None: `partial` if some parts succeeded, else the first part's error."""
    failed = [end for end in ends if end.error is not None]
    if not failed:
        if step.needed and any(end.truncated for end in ends):
            text = (
                "the responses of the parts are larger than limits.response_bytes, or there was no room for "
                "them within limits.open_bytes, and they are needed later"
            )
            return Broken(Failure("response_too_large", FailureType.TOO_LARGE), text, step.index)
        return None
    first = failed[0]
    waits = [end.retry_after for end in failed if end.retry_after is not None]
    retry_after = max(waits, default=None)
    if len(failed) < len(ends):
        text = _lead(f"{first.message} ({first.error})", len(failed), total)
        return Broken(Failure(PARTIAL, FailureType.PARTIAL), text, step.index, retry_after)
    assert first.error is not None
    kind = first.failure_type or FailureType.BUSINESS
    return Broken(Failure(first.error, kind), first.message, step.index, retry_after)


def _lead(said: str, failed: int, total: int) -> str:
    """The message of a mixed end, which leads with what the first failed part says."""
    return cut_message(f"{said}; {failed} of {total} parts failed")


def _fill(ends: tuple[PartEnd, ...], verdicts: Verdicts) -> Verdicts:
    if not verdicts:
        return ()
    return tuple(DROPPED if end.dropped else said for end, said in zip(ends, verdicts, strict=True))


def _await_reports(turn: TurnState, run: Open, verdicts: Verdicts) -> None:
    """Waits for a report of each part at the end of the chain; some may have reported already."""
    context = turn.contexts.get(run.execute_number)
    if not verdicts or context is None or not isinstance(context.phase, FeedbackAwaited):
        return
    turn.change_context(run, phase=PartsAwaited(verdicts))
    if None not in verdicts:
        settle_reports(turn, run, verdicts)


def _exchange(
    turn: TurnState, step: Step, ends: tuple[PartEnd, ...], url: str, array: bytes, broken: Broken | None
) -> Exchange:
    """The whole step as the history keeps it: its answer is the array."""
    return Exchange(
        method=step.target.method,
        url=url,
        status=None if broken else 200,
        fault=broken.message if broken else None,
        response_body=array,
        response_truncated=any(end.truncated for end in ends),
        sent_at=min((end.at for end in ends), default=turn.now.wall),
    )


def _said(report: Report) -> str:
    return report.message or f"the target reported {report.error or FAILED_WORD}"
