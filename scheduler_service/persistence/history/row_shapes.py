"""Rows in their wire form (SPEC section 10, the table of shapes)."""

from collections.abc import Iterable

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import write_execution_id
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import AttemptEnded, Exchange, ResultKept
from scheduler_service.domain.texts import cut, progress_fraction
from scheduler_service.domain.wire import Headers
from scheduler_service.persistence.history.answer_budget import AnswerBudget
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.row_merging import DeliveryDetail

MESSAGE_CHARACTERS = 200
"""So much of the message of a failure a list shows; its attempt in full shows all of it."""
_DETAIL = msgspec.msgpack.Decoder(DeliveryDetail)


def execution_wire(row: sa.Row[tuple[object, ...]], failure: AttemptEnded | None, caller: str | None) -> Wire:
    """The members of an execution in a list; `failure` is its failed attempt, where the history keeps it.

    `caller` triggered it: nobody did where it is of a timer, or the audit does not have it.
    """
    return {
        "executionId": write_execution_id(row.uid, row.execute_number),
        "jobId": read_job_key(row.job_id)[1],
        "executeNumber": row.execute_number,
        "revision": row.revision,
        "state": row.state,
        "reason": row.reason,
        "error": row.error,
        "failureType": row.failure_type,
        "message": None if failure is None else cut(failure.message, MESSAGE_CHARACTERS),
        "triggeredBy": row.triggered_by,
        "triggeredByName": caller or None,
        "plannedAt": rfc3339(row.planned_at),
        "startedAt": moment_wire(row.started_at),
        "endedAt": moment_wire(row.ended_at),
        "latenessMs": lateness(row.planned_at, row.started_at),
        "attemptCount": row.attempt_count,
        "progress": row.progress,
        "progressFraction": progress_fraction(row.progress),
    }


def result_wire(result: ResultKept) -> Wire:
    """What is said of a result beside its body. `contentType` null: the target named none."""
    return {
        "status": result.status,
        "contentType": result.content_type or None,
        "truncated": result.truncated,
        "masked": result.masked,
    }


def firing_wire(row: sa.Row[tuple[object, ...]]) -> Wire:
    """The members of an entry of the ledger. `count` None: it is still being counted.

    `state` is that of the execution, None where it started none or none is kept.
    """
    return {
        "plannedAt": rfc3339(row.planned_at),
        "until": None if row.until == row.planned_at else rfc3339(row.until),
        "count": row.count,
        "outcome": row.outcome,
        "reason": row.reason,
        "executionId": write_execution_id(row.uid, row.execute_number) if row.execute_number else None,
        "state": row.state,
    }


def delivery_wire(row: sa.Row[tuple[object, ...]]) -> Wire:
    """The members of a delivery in a list."""
    return {
        "deliveryId": row.delivery_id,
        "jobId": read_job_key(row.job_id)[1],
        "executionId": write_execution_id(row.uid, row.execute_number),
        "requestCounts": row.request_counts,
        **notification_wire(row),
    }


def notification_wire(row: sa.Row[tuple[object, ...]], room: AnswerBudget | None = None) -> Wire:
    """The members of a delivery among the notifications of its execution, as far as there is room."""
    url, detail = row.url, _DETAIL.decode(row.payload)
    if room is not None:
        url, detail = room.fit_notification(url, detail)
    return {
        "deliveryId": row.delivery_id,
        "name": row.name,
        "event": row.event,
        "url": url,
        "state": row.state,
        "createdAt": rfc3339(row.created_at),
        "attempts": [
            {"at": rfc3339(one.at), "status": one.status, "fault": one.fault, "durationMs": one.duration}
            for one in detail.tries
        ],
        "nextTryAt": moment_wire(detail.next_try_at),
        **({} if detail.exchange is None else exchange_wire(detail.exchange)),
    }


def last_answer(payload: bytes) -> str | None:
    """What failed of the last try of a delivery (`DeliveryTry.error`), from its stored detail."""
    tries = _DETAIL.decode(payload).tries
    return tries[-1].error if tries else None


def exchange_wire(exchange: Exchange) -> Wire:
    """The request and the response (None: no answer came) of a step, a check or a notification.

    A failed part has no status, but may have a response: the data that its instance sent.
    """
    answered = (
        exchange.status is not None or exchange.response_body is not None or exchange.response_truncated
    )
    return {
        "request": _message_wire(
            exchange.request_headers, exchange.request_body, truncated=exchange.request_truncated
        ),
        "response": _message_wire(
            exchange.response_headers, exchange.response_body, truncated=exchange.response_truncated
        )
        if answered
        else None,
    }


def moment_wire(moment: int | None) -> str | None:
    """A moment that may be missing."""
    return None if moment is None else rfc3339(moment)


def lateness(planned_at: int, started_at: int | None) -> int | None:
    """How long after its planned moment an execution started, in ms; never below 0."""
    return None if started_at is None else max(0, started_at - planned_at)


def _message_wire(headers: Headers, body: bytes | None, *, truncated: bool) -> Wire:
    wire: Wire = {"headers": _headers_wire(headers), "body": None, "truncated": truncated}
    if body is None:
        return wire
    try:
        wire["body"] = body.decode()
    except UnicodeDecodeError:
        wire |= {"body": body.hex(), "encoding": "hex"}
    return wire


def _headers_wire(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Fields of one name join as RFC 9110 section 5.2 says."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
