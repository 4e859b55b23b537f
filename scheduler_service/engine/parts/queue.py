"""The parts of a `queue://` step, which instances claim and complete (SPEC section 13)."""

from scheduler_service.domain.document import Open, PartsQueued, Report
from scheduler_service.domain.effects import ReconfigureParts, WithdrawParts
from scheduler_service.domain.records import Exchange, exchange_of
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.secret_places import hide_places
from scheduler_service.domain.step_parts import SHARD, PartEnd, PartName, QueueOptions
from scheduler_service.domain.texts import cut_error, cut_message, cut_progress
from scheduler_service.domain.turn_events import PartEnded, PartProgressed
from scheduler_service.domain.wire import Answer, Fault, OutboundRequest
from scheduler_service.engine.attempt import Broken, fail
from scheduler_service.engine.chain import advance, key_of, record_step, refuse_sum
from scheduler_service.engine.notification_events import (
    FAILED,
    TIMEOUT,
    make_response,
    notify,
    report_event,
)
from scheduler_service.engine.outbound_requests import Refused
from scheduler_service.engine.parts.dispatch import key_of_part, make_part, withdraw
from scheduler_service.engine.parts.holders import find_queued, part_of, reconfigure_leases, take_changes
from scheduler_service.engine.parts.join import finish_parts, fit_body
from scheduler_service.engine.program import Program, Step
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.turn_state import NotificationEvent, TurnState, replace
from scheduler_service.language.json_values import as_json, parse_json

RENEWED = "200"


def handle_part_end(turn: TurnState, event: PartEnded) -> Reply:
    """Takes the end of a part. A repetition changes nothing; a part that is not awaited is `Unchanged`."""
    name, end = event.name, event.end
    awaited = find_queued(turn, name)
    if awaited is None:
        return Unchanged()
    run, phase = awaited
    if phase.ends[name.index] is not None:
        return Taken()
    phase = take_changes(turn, run, phase, name.index, event.changes)
    _end(turn, run, phase, name.index, _shorten(end), event.request)
    return Taken()


def handle_part_progress(turn: TurnState, event: PartProgressed) -> Reply:
    """Takes the progress of a part: shown and notified like that of a feedback."""
    awaited = find_queued(turn, event.name)
    if awaited is None or awaited[1].ends[event.name.index] is not None:
        return Unchanged()
    run = awaited[0]
    progress, message = cut_progress(event.progress), cut_message(event.message)
    said = {"status": "", "progress": progress, "message": message}
    report = Report(message=message, progress=progress, body=as_json(said))
    known = turn.contexts[run.execute_number].progress
    turn.change_context(run, progress=progress or known)
    turn.record_execution(run)
    notify(turn, run, report_event, report, RENEWED)
    return Taken()


def reconfigure(turn: TurnState, after: Program) -> None:
    """Gives the parts in queues the options of a new definition (SPEC section 13)."""
    for run in turn.live():
        context = turn.contexts.get(run.execute_number)
        if context is None or not isinstance(context.phase, PartsQueued):
            continue
        step = context.phase.step
        new = after.steps[step].dispatch if step < len(after.steps) else None
        if isinstance(new, QueueOptions):
            name = PartName(turn.head.uid, run.execute_number, run.request_counts, step, 0)
            turn.effects.append(ReconfigureParts(name, new))
            reconfigure_leases(turn, run, context.phase, new)


def record_queued_parts(turn: TurnState, run: Open, phase: PartsQueued, fault: Fault) -> None:
    """Records the parts not yet completed when the attempt ran out of time."""
    step = turn.program_of(run).steps[phase.step]
    total = len(phase.ends)
    for index, end in enumerate(phase.ends):
        request = None if end else _render(turn, run, step, (index, total))
        if isinstance(request, OutboundRequest):
            late = replace(fault, elapsed=max(turn.now.wall - phase.sent_at, 0))
            exchange = exchange_of(request, late, phase.sent_at)
            holder = phase.holders[index] if phase.holders else ""
            part = part_of(index, total)
            record_step(turn, run, step, exchange, TIMEOUT, instance=holder or None, part=part)


def withdraw_all(turn: TurnState, run: Open) -> None:
    """Removes all parts of an execution whose context is lost from their queues."""
    if any(isinstance(step.dispatch, QueueOptions) for step in turn.program_of(run).steps):
        turn.effects.append(WithdrawParts(turn.head.uid, run.execute_number))


def _render(turn: TurnState, run: Open, step: Step, place: tuple[int, int]) -> OutboundRequest | Refused:
    """The request that was put into the queue, made again from the same responses."""
    route = SHARD if place[1] > 1 else ""
    key = key_of_part(key_of(turn, run, step), route, place, "")
    return make_part(turn, run, step, place, route=route, key=key, limits=(step.target.timeout, 0))


def _shorten(end: PartEnd) -> PartEnd:
    """The end with what the instance says of it cut, like a report."""
    if end.error is None:
        return end
    return replace(end, error=cut_error(end.error), message=cut_message(end.message))


def _end(
    turn: TurnState, run: Open, phase: PartsQueued, index: int, end: PartEnd, request: OutboundRequest
) -> None:
    step = turn.program_of(run).steps[phase.step]
    end = fit_body(turn, phase.ends, end)
    ends = tuple(end if place == index else known for place, known in enumerate(phase.ends))
    exchange = _exchange(turn, phase, end, request)
    place = part_of(index, len(ends))
    record_step(turn, run, step, exchange, end.error, instance=end.instance or None, part=place)
    turn.change_context(run, phase=replace(phase, ends=ends))
    if not all(ends):
        return
    withdraw(turn, run)
    if len(ends) == 1:
        _finish(turn, run, step, phase, end)
    else:
        finish_parts(turn, run, step, tuple(one for one in ends if one), phase.url, phase.verdicts)


def _finish(turn: TurnState, run: Open, step: Step, phase: PartsQueued, end: PartEnd) -> None:
    """Ends a step that had one part as that part ended."""
    answer = Answer(end.status, (), end.body or b"", end.truncated, 0, phase.url)
    broken = None if end.error is not None else refuse_sum(turn, run, step, answer)
    if broken is not None:
        failure = broken.failure
        end = replace(end, error=failure.code, failure_type=failure.failure_type, message=broken.message)
    if end.error is None:
        advance(turn, run, step, answer)
        return
    notify(turn, run, _event_of, end)
    assert end.failure_type is not None, "a part that failed says how"
    fail(turn, run, Broken(Failure(end.error, end.failure_type), end.message, step.index))


def _event_of(turn: TurnState, end: PartEnd) -> NotificationEvent:
    code = end.error or FAILED
    data = None if end.body is None else parse_json(end.body)
    response = make_response(turn, FAILED, end.message or None, code, data)
    return NotificationEvent(code, str(end.status), response, end.timed_out)


def _exchange(turn: TurnState, phase: PartsQueued, end: PartEnd, request: OutboundRequest) -> Exchange:
    failed, request = end.error is not None, hide_places(request)
    return Exchange(
        method=request.method,
        url=request.url,
        request_headers=request.headers,
        request_body=request.body,
        status=None if failed else end.status,
        fault=(end.message or f"the instance reported {end.error}") if failed else None,
        response_body=end.body,
        response_truncated=end.truncated,
        sent_at=phase.sent_at,
        duration=max(turn.now.wall - phase.sent_at, 0),
    )
