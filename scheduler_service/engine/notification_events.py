"""What callers are told: which event matches which entry, and the body it carries (SPEC section 7)."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec

import msgspec

from scheduler_service.domain.document import Open, Report, Told
from scheduler_service.domain.effects import Delivery, Notify
from scheduler_service.domain.execution import DeliveryState, ExecutionState
from scheduler_service.domain.moments import SECOND, as_datetime
from scheduler_service.domain.records import DeliveryRecord, DeliveryTry
from scheduler_service.domain.wire import Answer, OutboundRequest
from scheduler_service.engine.program import Notification, Program
from scheduler_service.engine.requests import Refused, make_request
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.language.template import NOTIFY_BODY
from scheduler_service.language.values import as_json, parse_json
from scheduler_service.timing.zones import load_zone

IN_PROGRESS, SUCCEED, FAILED, TIMEOUT = "inprogress", "succeed", "failed", "timeout"
FINAL_SUCCEED, FINAL_FAILED = "finalSucceed", "finalFailed"
FINAL = frozenset({FINAL_SUCCEED, FINAL_FAILED})
OWN_FAULT = "500"
WEBHOOK_ID = "webhook-id"

P = ParamSpec("P")


class NotificationEvent(msgspec.Struct, frozen=True):
    """One event worth telling: `key` is compared with `stateEquals`, `response` is the body's member.

    `timed_out`: a timeout, also where it counts as 500.
    """

    key: str
    http_status: str
    response: dict[str, object]
    timed_out: bool = False


def report_notice(_: TurnState, report: Report, http_status: str) -> NotificationEvent:
    """The event that a check or a feedback is."""
    key = {"": IN_PROGRESS, SUCCEED: SUCCEED}.get(report.status) or report.error or FAILED
    return NotificationEvent(key, http_status, _object(parse_json(report.body)) | {"status": report.status})


def answer_notice(draft: TurnState, answer: Answer, error: str | None, message: str) -> NotificationEvent:
    """The answer that ends a synchronous attempt, or a failing request of an asynchronous chain."""
    code = str(answer.status)
    value = parse_json(answer.body) if answer.body else None
    if isinstance(value, dict) and "status" in value:
        return NotificationEvent(code, code, value)
    state = FAILED if error else SUCCEED
    return NotificationEvent(code, code, make_response(draft, state, message or None, error, value))


def plain_notice(
    draft: TurnState,
    key: str,
    error: str,
    message: str,
    *,
    http_status: str = OWN_FAULT,
    timed_out: bool = False,
) -> NotificationEvent:
    """An event that no target described: no answer, a limit, a request that could not be made."""
    return NotificationEvent(key, http_status, make_response(draft, FAILED, message, error, None), timed_out)


def make_response(
    draft: TurnState, status: str, message: str | None, error: str | None, data: object
) -> dict[str, object]:
    """The `response` of a notification that no target wrote."""
    return {
        "status": status,
        "message": message,
        "error": error,
        "progress": None,
        "datetime": local_text(draft.program.surroundings.default_zone, draft.now.wall),
        "data": data,
    }


def local_text(zone: str, moment: int) -> str:
    """`YYYY-MM-DD HH:MM:SS` in `zone`."""
    local = load_zone(zone).to_local(moment)
    return as_datetime(local - local % SECOND).strftime("%Y-%m-%d %H:%M:%S")


def notify(
    draft: TurnState,
    run: Open,
    make: Callable[Concatenate[TurnState, P], NotificationEvent],
    *values: P.args,
    **options: P.kwargs,
) -> None:
    """Tells every entry that asked for this event; remembers it for the final one.

    `make(draft, …)` is called where anybody may be told: most jobs have no entry, and a notice reads the
    answer's JSON. A closure would cost those too: its cells are made before anybody is asked.
    """
    program = draft.program_of(run)
    if not program.notifications:
        return
    notice = make(draft, *values, **options)
    _tell(draft, run, program, notice)
    told = Told(notice.http_status, as_json(notice.response))
    draft.adjust(run.execute_number, told=told)


def notify_end(draft: TurnState, run: Open, state: ExecutionState, error: str | None, message: str) -> None:
    """Tells that the execution ended; the last event's `response` with the final status."""
    program = draft.program_of(run)
    if not program.notifications:
        return
    final = FINAL_SUCCEED if state is ExecutionState.SUCCEEDED else FINAL_FAILED
    told = draft.contexts[run.execute_number].told
    if told is None:
        response = make_response(draft, final, message or None, error, None)
        _tell(draft, run, program, NotificationEvent(final, OWN_FAULT, response))
        return
    response = _object(parse_json(told.response)) | {"status": final}
    if error in ("cancelled", "lost"):
        response["error"] = error
    _tell(draft, run, program, NotificationEvent(final, told.http_status, response))


def _tell(draft: TurnState, run: Open, program: Program, notice: NotificationEvent) -> None:
    key = _key_among(program, notice)
    for place, entry in enumerate(program.notifications):
        if entry.keys and key not in entry.keys:
            continue
        if entry.on_change and _seen_before(draft, run, place, notice):
            continue
        _deliver(draft, run, program, entry, notice)


def _key_among(program: Program, notice: NotificationEvent) -> str:
    """A timeout that counts as 500 goes to who names `timeout` where none names 500 (SPEC section 5)."""
    named = any(notice.key in entry.keys for entry in program.notifications)
    return TIMEOUT if notice.timed_out and not named else notice.key


def _seen_before(draft: TurnState, run: Open, place: int, notice: NotificationEvent) -> bool:
    """Whether this entry was told the same status, error and progress last time; remembers it."""
    if notice.key in FINAL:
        return False
    context = draft.contexts[run.execute_number]
    mark = as_json([notice.response.get(name) for name in ("status", "error", "progress")]).decode()
    seen = list(context.seen) or [""] * len(draft.program_of(run).notifications)
    if seen[place] == mark:
        return True
    seen[place] = mark
    draft.adjust(run.execute_number, seen=tuple(seen))
    return False


def _deliver(
    draft: TurnState, run: Open, program: Program, entry: Notification, notice: NotificationEvent
) -> None:
    context = draft.contexts[run.execute_number]
    ordinal = context.deliveries
    delivery_id = f"{draft.head.uid}-{run.execute_number}-{ordinal}"
    key = f"{delivery_id}-n"
    body = {
        "httpStatus": notice.http_status,
        "response": notice.response,
        "jobId": program.job_id,
        "executeNumber": run.execute_number,
        "requestCounts": run.request_counts,
    }
    request = make_request(
        program,
        draft.head,
        run,
        context.responses,
        entry.target,
        key=key,
        timeout=entry.target.timeout,
        extra={NOTIFY_BODY: body},
    )
    draft.adjust(run.execute_number, deliveries=ordinal + 1)
    if isinstance(request, Refused):
        _refuse(draft, run, entry, notice, delivery_id, request)
        return
    delivery = Delivery(
        delivery_id=delivery_id,
        uid=draft.head.uid,
        execute_number=run.execute_number,
        request_counts=run.request_counts,
        ordinal=ordinal,
        event=notice.key,
        request=_name_delivery(request, key),
        name=entry.name,
        durable=program.qos == 1 or entry.outbox,
        outbox=program.qos == 1 or entry.outbox,
        final=notice.key in FINAL,
        created_at=draft.now.wall,
        tenant=program.surroundings.tenant,
    )
    draft.effects.append(Notify(delivery))


def _refuse(
    draft: TurnState,
    run: Open,
    entry: Notification,
    notice: NotificationEvent,
    delivery_id: str,
    refused: Refused,
) -> None:
    """A delivery that cannot be made failed for good: it is seen among the others, and in the log."""
    cause = f"{refused.code}: {refused.message}"
    draft.note(run, "notification", f"not sent, {cause}")
    draft.records.append(
        DeliveryRecord(
            delivery_id=delivery_id,
            execute_number=run.execute_number,
            request_counts=run.request_counts,
            event=notice.key,
            url=entry.target.url.text,
            state=DeliveryState.FAILED,
            name=entry.name,
            created_at=draft.now.wall,
            tries=(DeliveryTry(draft.now.wall, None, cause),),
        )
    )


def _name_delivery(request: OutboundRequest, key: str) -> OutboundRequest:
    """The same `webhook-id` on every try, so that a receiver can tell a repetition; an entry's own wins."""
    if any(name.lower() == WEBHOOK_ID for name, _ in request.headers):
        return request
    return msgspec.structs.replace(request, headers=(*request.headers, (WEBHOOK_ID, key)))


def _object(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {"data": value}
