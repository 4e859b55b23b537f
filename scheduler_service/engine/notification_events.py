"""Notifications: which event goes to which entry, and the body it carries (SPEC section 7)."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec

import msgspec

from scheduler_service.domain.document import LastEvent, Open, Report
from scheduler_service.domain.effects import Delivery, Notify
from scheduler_service.domain.execution import DeliveryState, ExecutionState
from scheduler_service.domain.moments import SECOND, as_datetime
from scheduler_service.domain.records import DeliveryRecord, DeliveryTry
from scheduler_service.domain.tracing import DELIVERY
from scheduler_service.domain.wire import Answer, OutboundRequest
from scheduler_service.engine.answer_rules import texts_of
from scheduler_service.engine.decision import SMALL_BYTES
from scheduler_service.engine.feedback_url import token_in
from scheduler_service.engine.outbound_requests import Refused, make_request
from scheduler_service.engine.program import Notification, Program
from scheduler_service.engine.turn_state import NotificationEvent, TurnState
from scheduler_service.language.expression import NOTIFY_BODY
from scheduler_service.language.json_values import NOT_TEXT, as_json, parse_json, parse_response
from scheduler_service.timing.zones import load_zone

IN_PROGRESS, SUCCEED, FAILED, TIMEOUT = "inprogress", "succeed", "failed", "timeout"
FINAL_SUCCEED, FINAL_FAILED = "finalSucceed", "finalFailed"
FINAL = frozenset({FINAL_SUCCEED, FINAL_FAILED})
OWN_FAULT = "500"
NOTHING_GIVEN: Mapping[str, object] = dict.fromkeys(
    ("status", "message", "error", "progress", "datetime", "data")
)
"""The members that every `response` has (SPEC section 7), as they are where the target gave none."""
WEBHOOK_ID = "webhook-id"
MARK_BYTES = 512
KEPT_BYTES = 64 << 10
"""A larger event is not kept whole: what steps and triggers need goes first."""
NOT_KEPT = (
    "the last events are kept without what is long in them, should the execution end without another: they "
    f"have more than {KEPT_BYTES:,} bytes, or find no room within limits.open_bytes"
)

P = ParamSpec("P")


def report_event(_: TurnState, report: Report, http_status: str) -> NotificationEvent:
    """The event of a check or a feedback."""
    key = {"": IN_PROGRESS, SUCCEED: SUCCEED}.get(report.status) or report.error or FAILED
    return NotificationEvent(key, http_status, _object(parse_json(report.body)) | {"status": report.status})


def answer_event(
    turn: TurnState, answer: Answer, error: str | None, message: str, key: str | None = None
) -> NotificationEvent:
    """The event of an answer that ends a synchronous attempt or fails an asynchronous chain.

    `key` None: its status.
    """
    code = str(answer.status)
    key = key or code
    value = parse_response(answer.body) if answer.body else None
    if value is NOT_TEXT:
        value, message = None, message or "the answer is no text in its charset: it is left out of `data`"
    if isinstance(value, dict) and "status" in value:
        # A problem (RFC 9457) says it in `detail`: the message of the attempt leads here (SPEC section 5).
        said = {"message": message} if error and message and value.get("message") is None else {}
        return NotificationEvent(key, code, {**value, **said})
    state = FAILED if error else SUCCEED
    return NotificationEvent(key, code, make_response(turn, state, message or None, error, value))


def failure_event(
    turn: TurnState,
    key: str,
    error: str,
    message: str,
    *,
    http_status: str = OWN_FAULT,
    timed_out: bool = False,
) -> NotificationEvent:
    """The event of a failure without an answer: no connection, a limit, a request that cannot be made."""
    return NotificationEvent(key, http_status, make_response(turn, FAILED, message, error, None), timed_out)


def make_response(
    turn: TurnState, status: str, message: str | None, error: str | None, data: object
) -> dict[str, object]:
    """The `response` of a notification that does not come from the target."""
    return {
        "status": status,
        "message": message,
        "error": error,
        "progress": None,
        "datetime": local_text(turn.program.surroundings.default_zone, turn.now.wall),
        "data": data,
    }


def local_text(zone: str, moment: int) -> str:
    """`YYYY-MM-DD HH:MM:SS` in `zone`."""
    local = load_zone(zone).to_local(moment)
    return as_datetime(local - local % SECOND).strftime("%Y-%m-%d %H:%M:%S")


def notify(
    turn: TurnState,
    run: Open,
    make: Callable[Concatenate[TurnState, P], NotificationEvent],
    *values: P.args,
    **options: P.kwargs,
) -> None:
    """Notifies every entry that matches this event, and has it at hand for the final one.

    `make(turn, …)` is called only if the job has entries: most have none, and an event parses the answer's
    JSON. A closure would cost those jobs too, since its cells are made first.
    """
    program = turn.program_of(run)
    if not program.notifications:
        return
    event = make(turn, *values, **options)
    _notify_entries(turn, run, program, event)
    turn.last_events[run.execute_number] = event


def notify_end(turn: TurnState, run: Open, state: ExecutionState, error: str | None, message: str) -> None:
    """Notifies the end of the execution: the last event's `response` with the final status."""
    program = turn.program_of(run)
    if not program.notifications:
        return
    final = FINAL_SUCCEED if state is ExecutionState.SUCCEEDED else FINAL_FAILED
    http_status, last = _last_event(turn, run)
    if last is None:
        response = make_response(turn, final, message or None, error, None)
    else:
        response = last | {"status": final}
        if error in ("cancelled", "lost"):
            response["error"] = error
    _notify_entries(turn, run, program, NotificationEvent(final, http_status, response))


def _last_event(turn: TurnState, run: Open) -> tuple[str, dict[str, object] | None]:
    """The `httpStatus` and the `response` of the last event; None: there was none."""
    event = turn.last_events.get(run.execute_number)
    if event is not None:
        return event.http_status, event.response
    last = turn.contexts[run.execute_number].told
    if last is None:
        return OWN_FAULT, None
    return last.http_status, _object(parse_json(last.response))


def keep_last_events(turn: TurnState) -> None:
    """Keeps the last event of each execution that goes on: a later turn may end it (SPEC section 7).

    A large one is not kept whole, since an execution can do without it.
    """
    for number, event in turn.last_events.items():
        context = turn.contexts.get(number)
        if context is None:
            continue
        before, response = context.told, as_json(event.response)
        is_cut = len(response) > KEPT_BYTES or turn.lacks_room(len(response))
        if is_cut:
            response = as_json(_shorten(event.response))
            if before is None or not before.is_cut:  # else the log has it
                turn.note(turn.opens[number], "notification", NOT_KEPT)
        turn.change_context(turn.opens[number], told=LastEvent(event.http_status, response, is_cut))


def _shorten(response: Mapping[str, object]) -> dict[str, object]:
    """What of a `response` fits `SMALL_BYTES`: the six members, `null` in the place of one that does not, and
    then others up to the first one that does not.
    """
    short: dict[str, object] = dict(NOTHING_GIVEN)
    size = len(as_json(short))
    for name in (*NOTHING_GIVEN, *(name for name in response if name not in NOTHING_GIVEN)):
        own = len(as_json([name, response.get(name)]))
        if size + own <= SMALL_BYTES:
            short[name] = response.get(name)
            size += own
        elif name not in NOTHING_GIVEN:
            break
    return short


def _notify_entries(turn: TurnState, run: Open, program: Program, event: NotificationEvent) -> None:
    key = _key_of(program, event)
    for place, entry in enumerate(program.notifications):
        if entry.keys and key not in entry.keys:
            continue
        if entry.on_change and _seen_before(turn, run, place, event):
            continue
        _deliver(turn, run, program, entry, event)


def _key_of(program: Program, event: NotificationEvent) -> str:
    """The event's key; a timeout counted as 500 is `timeout` if no entry names 500 (SPEC section 5)."""
    named = any(event.key in entry.keys for entry in program.notifications)
    return TIMEOUT if event.timed_out and not named else event.key


def _seen_before(turn: TurnState, run: Open, place: int, event: NotificationEvent) -> bool:
    """Whether this entry was last notified of the same status, error and progress; keeps the new ones."""
    if event.key in FINAL:
        return False
    context = turn.contexts[run.execute_number]
    mark = _mark_of([event.response.get(name) for name in ("status", "error", "progress")])
    seen = list(context.seen) or [""] * len(turn.program_of(run).notifications)
    if seen[place] == mark:
        return True
    seen[place] = mark
    turn.change_context(run, seen=tuple(seen))
    return False


def _mark_of(said: list[object]) -> str:
    """What is kept to be compared: the values, or their digest where a target's answer has long ones."""
    text = as_json(said)
    return text.decode() if len(text) <= MARK_BYTES else hashlib.sha256(text).hexdigest()


def _deliver(
    turn: TurnState, run: Open, program: Program, entry: Notification, event: NotificationEvent
) -> None:
    context = turn.contexts[run.execute_number]
    ordinal = context.deliveries
    delivery_id = f"{turn.head.uid}-{run.execute_number}-{ordinal}"
    key = f"{delivery_id}-n"
    body = {
        "httpStatus": event.http_status,
        "response": {**NOTHING_GIVEN, **event.response},
        "jobId": program.job_id,
        "executeNumber": run.execute_number,
        "requestCounts": run.request_counts,
    }
    request = make_request(
        turn,
        program,
        run,
        entry.target,
        key=key,
        timeout=entry.target.timeout,
        extra={NOTIFY_BODY: body},
        span=(DELIVERY, ordinal),
    )
    turn.change_context(run, deliveries=ordinal + 1)
    if isinstance(request, Refused):
        _refuse(turn, run, entry, event, delivery_id, request)
        return
    delivery = Delivery(
        delivery_id=delivery_id,
        uid=turn.head.uid,
        execute_number=run.execute_number,
        request_counts=run.request_counts,
        ordinal=ordinal,
        event=event.key,
        request=_name_delivery(request, key),
        name=entry.name,
        durable=program.qos == 1 or entry.outbox,
        outbox=program.qos == 1 or entry.outbox,
        final=event.key in FINAL,
        created_at=turn.now.wall,
        tenant=program.surroundings.tenant,
        trace=run.trace,
        detail=program.history_detail,
        token=token_in(request, turn.head, run.request_counts) if program.asynchronous else "",
        robot=entry.robot,
        rule=texts_of(entry.target.rule),
    )
    turn.effects.append(Notify(delivery))


def _refuse(
    turn: TurnState,
    run: Open,
    entry: Notification,
    event: NotificationEvent,
    delivery_id: str,
    refused: Refused,
) -> None:
    """Records a delivery whose request cannot be made as failed, and in the execution's log."""
    cause = f"{refused.code}: {refused.message}"
    turn.note(run, "notification", f"not sent, {cause}")
    turn.records.append(
        DeliveryRecord(
            delivery_id=delivery_id,
            execute_number=run.execute_number,
            request_counts=run.request_counts,
            event=event.key,
            url=entry.target.url.text,
            state=DeliveryState.FAILED,
            name=entry.name,
            created_at=turn.now.wall,
            tries=(DeliveryTry(turn.now.wall, None, cause),),
            tried=1,
            trace=run.trace,
        )
    )


def _name_delivery(request: OutboundRequest, key: str) -> OutboundRequest:
    """Adds a `webhook-id`, equal on every try, by which receivers deduplicate; an entry's own wins."""
    if any(name.lower() == WEBHOOK_ID for name, _ in request.headers):
        return request
    return msgspec.structs.replace(request, headers=(*request.headers, (WEBHOOK_ID, key)))


def _object(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {"data": value}
