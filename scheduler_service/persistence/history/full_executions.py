"""Executions in full: with attempts and notifications, as far as there is room in the answer."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    Detail,
    FeedbackSeen,
    LeaseChanged,
    StepEnded,
)
from scheduler_service.domain.texts import progress_fraction
from scheduler_service.domain.tracing import trace_in, trace_of
from scheduler_service.language.json_values import as_text, show_text
from scheduler_service.persistence.history.answer_budget import AnswerBudget
from scheduler_service.persistence.history.execution_log import AnyRow
from scheduler_service.persistence.history.queries import Wire, select_newest
from scheduler_service.persistence.history.row_shapes import (
    exchange_wire,
    execution_wire,
    notification_wire,
    result_wire,
)
from scheduler_service.persistence.history.stored_records import (
    Place,
    StoredRecord,
    read_callers,
    read_newest_first,
    read_notifications,
    read_oldest_first,
    read_result,
)


class NewestExecutions(msgspec.Struct, frozen=True):
    """The newest executions of the first `count` of some jobs; those of the others are not read."""

    items: list[Wire]
    count: int


class ShownRecords(msgspec.Struct, frozen=True):
    """The records in the order of their turns; `ended`: the end of the last attempt that ended, if known."""

    records: list[Detail]
    ended: AttemptEnded | None


def read_in_full(
    connection: sa.Connection, row: AnyRow, room: AnswerBudget, request_counts: int | None = None
) -> Wire:
    """The execution of `row`, or what it has of that attempt alone."""
    params = room.fit_params(row.params)
    shown = read_shown(connection, row.uid, row.execute_number, room, request_counts)
    notifications = _read_notifications(connection, row, room, request_counts)
    callers, ended = read_callers(connection, [row]), shown.ended
    failure = ended if row.error is not None and ended is not None and ended.error is not None else None
    known = shown.records if ended is None else [*shown.records, ended]
    kept = read_result(connection, row) if row.state == ExecutionState.SUCCEEDED else None
    attempts = assemble_attempts(shown.records)
    is_brief = _is_brief(shown.records) or bool(row.attempt_count and not attempts and request_counts is None)
    return {
        **execution_wire(row, failure, callers.get((row.uid, row.execute_number))),
        "traceId": trace_id(row, known),
        "detail": _detail_word(row, room, is_brief=is_brief),
        "params": None if params is None else parse_kept(params),
        "paramsComplete": bool(row.params_complete) and params is not None,
        "result": None if kept is None else {**result_wire(kept), "bytes": len(kept.body)},
        "attempts": attempts,
        "notifications": notifications,
    }


def read_newest_of_each(
    connection: sa.Connection, tenant: str, job_ids: Sequence[str], room: AnswerBudget, limit: int
) -> NewestExecutions:
    """The newest executions of as many of these jobs as there is room for, at most `limit`.

    The first is read whatever its size. One that does not fit whole after it is left to the next page.
    """
    items: list[Wire] = []
    for count, job_id in enumerate(job_ids):
        row = connection.execute(select_newest(tenant, job_id)).first()
        if row is None:
            continue
        if len(items) == limit or room.has_left_out():
            return NewestExecutions(items, count)
        is_first = room.begin_execution()
        found = read_in_full(connection, row, room)
        if room.has_left_out() and not is_first:
            return NewestExecutions(items, count)
        items.append(found)
    return NewestExecutions(items, len(job_ids))


def _read_notifications(
    connection: sa.Connection, row: AnyRow, room: AnswerBudget, request_counts: int | None
) -> list[Wire]:
    """In the order of their creation; the newest where there are more than there is room for."""
    most = room.notifications
    found = read_notifications(
        connection, row.uid, row.execute_number, most=most + 1, request_counts=request_counts
    )
    shown: list[Wire] = []
    for one in found:
        if len(shown) == most:
            room.leave_out()
            break
        shown.append(notification_wire(one, room))
    return shown[::-1]


def _detail_word(row: AnyRow, room: AnswerBudget, *, is_brief: bool) -> str:
    if row.dropped:
        return "dropped"
    if room.has_left_out():
        return "partial"
    return "brief" if is_brief else "kept"


def _is_brief(records: Iterable[Detail]) -> bool:
    """Whether a call was written without headers and bodies, as `historyDetail` says."""
    calls = (one.exchange for one in records if isinstance(one, StepEnded | CheckEnded))
    return any(one.redacted and not one.request_headers and one.request_body is None for one in calls)


def assemble_attempts(records: Iterable[Detail]) -> list[Wire]:
    """The attempts in order of `requestCounts`; one whose start is missing has what there is.

    Steps are in the order of the chain, the parts of one by their index, then the step as a whole.
    """
    attempts: dict[int, _Attempt] = {}
    for record in records:
        if record.request_counts is None:
            continue
        attempt = attempts.setdefault(record.request_counts, _Attempt(record.request_counts))
        attempt.add(record)
    return [attempts[number].finish() for number in sorted(attempts)]


def trace_id(row: AnyRow, records: Iterable[Detail]) -> str | None:
    """The trace of an execution: that of its caller, or its own; None: it has none, or it is not known yet.

    Timers have no caller; of others the first record of a call or an attempt that has ended says it.
    """
    if row.started_at is None:
        return None
    callers = [one.trace for one in records if isinstance(one, StepEnded | CheckEnded | AttemptEnded)]
    if not callers and row.triggered_by != TriggeredBy.TIMER:
        return None
    caller = next(filter(None, callers), "")
    return trace_in(caller) or trace_of(row.uid, row.execute_number)


class _Attempt:
    """An attempt to which records are added."""

    def __init__(self, request_counts: int) -> None:
        self._steps: list[StepEnded] = []
        self._checks: list[Wire] = []
        self._feedback: list[Wire] = []
        self._leases: list[Wire] = []
        self._wire: Wire = {
            "requestCounts": request_counts,
            "reason": None,
            "startedAt": None,
            "endedAt": None,
            "error": None,
            "failureType": None,
            "message": None,
            "retryInMs": None,
            "steps": [],
            "checks": self._checks,
            "feedback": self._feedback,
            "leases": self._leases,
        }

    def add(self, record: Detail) -> None:
        match record:
            case AttemptStarted():
                self._wire |= {"startedAt": rfc3339(record.at), "reason": record.reason}
            case AttemptEnded():
                self._wire |= _ending_wire(record)
            case StepEnded():
                self._steps.append(record)
            case CheckEnded():
                self._checks.append(_check_wire(record))
            case LeaseChanged():
                self._leases.append(_lease_wire(record))
            case FeedbackSeen():
                self._feedback.append(_feedback_wire(record))
            case _:
                pass

    def finish(self) -> Wire:
        steps = [_step_wire(step) for step in sorted(self._steps, key=_place)]
        return self._wire | {"steps": steps}


def _place(step: StepEnded) -> tuple[int, bool, int]:
    return step.index, step.part is None, step.part or 0


def _ending_wire(record: AttemptEnded) -> Wire:
    return {
        "endedAt": rfc3339(record.at),
        "error": record.error,
        "failureType": record.failure_type,
        "message": record.message,
        "retryInMs": record.retry_in,
    }


def _step_wire(record: StepEnded) -> Wire:
    exchange = record.exchange
    return {
        "index": record.index,
        "part": record.part,
        "instance": record.instance,
        "respEnvName": record.resp_env_name,
        "method": exchange.method,
        "url": exchange.url,
        "status": exchange.status,
        "fault": exchange.fault,
        "error": record.error,
        "sentAt": rfc3339(exchange.sent_at),
        "endedAt": rfc3339(record.at),
        "durationMs": exchange.duration,
        **exchange_wire(exchange),
    }


def _lease_wire(record: LeaseChanged) -> Wire:
    return {
        "step": record.index,
        "part": record.part,
        "instance": record.instance,
        "what": record.what,
        "at": rfc3339(record.at),
    }


def _check_wire(record: CheckEnded) -> Wire:
    exchange = record.exchange
    return {
        "serial": record.serial,
        "at": rfc3339(record.at),
        "status": record.status,
        "progress": record.progress,
        "progressFraction": progress_fraction(record.progress),
        "error": record.error,
        "method": exchange.method,
        "url": exchange.url,
        "httpStatus": exchange.status,
        "fault": exchange.fault,
        "durationMs": exchange.duration,
        **exchange_wire(exchange),
    }


def _feedback_wire(record: FeedbackSeen) -> Wire:
    body = None if record.truncated and not record.body else parse_kept(record.body)
    progress = _progress_in(body)
    return {
        "at": rfc3339(record.at),
        "stale": record.stale,
        "part": record.part,
        "truncated": record.truncated,
        "progress": progress,
        "progressFraction": progress_fraction(progress),
        "body": body,
    }


def _progress_in(report: object) -> str | None:
    """The progress in a report, as in a check's; None where the report was cut or has none."""
    progress = report.get("progress") if isinstance(report, dict) else None
    return None if progress in (None, "") else as_text(progress)


def parse_kept(body: bytes) -> object:
    """A report or parameters as JSON; what was cut is text."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return show_text(body)


OLDEST_RECORDS = 512
"""So many of the oldest records are shown beside the newest: the first attempt's start and steps."""


class _Head(msgspec.Struct):
    """What is read of each record to see whether it is wanted."""

    request_counts: int | None = None


_HEAD = msgspec.msgpack.Decoder(_Head)


def read_shown(
    connection: sa.Connection,
    uid: str,
    execute_number: int,
    room: AnswerBudget,
    request_counts: int | None = None,
) -> ShownRecords:
    """The newest records of an execution as far as `room` goes, then the oldest few; each once.

    `request_counts`: those of that attempt alone; none where the execution has no such attempt.
    """
    found: dict[Place, Detail] = {}
    ended: AttemptEnded | None = None
    for stored in read_newest_first(connection, uid, execute_number):
        ended = ended or _end_in(stored)
        if stored.place not in found and _is_of(stored, request_counts):
            if not room.take_record():
                if not found:  # executions before this one have used up the answer
                    room.leave_out()
                    return ShownRecords([], None)
                oldest = read_oldest_first(connection, uid, execute_number)
                return _with_oldest(oldest, room, request_counts, found, ended)
            found[stored.place] = room.fit_record(stored.decode())
        if request_counts is not None and _begins(stored, request_counts):
            break
    return _in_order(found, ended)


def _with_oldest(
    oldest: Iterable[StoredRecord],
    room: AnswerBudget,
    request_counts: int | None,
    newest: dict[Place, Detail],
    ended: AttemptEnded | None,
) -> ShownRecords:
    """With the oldest, which may reach to the newest: then all are there."""
    found: dict[Place, Detail] = {}
    last: AttemptEnded | None = None
    for stored in oldest:
        if stored.place in newest:
            return _in_order(found | newest, ended or last)
        last = _end_in(stored) or last
        if stored.place in found or not _is_of(stored, request_counts):
            continue
        if len(found) == OLDEST_RECORDS:
            room.leave_out()
            break
        found[stored.place] = room.fit_record(stored.decode())
    # An end among the oldest is that of an early attempt.
    return _in_order(found | newest, ended)


def _is_of(stored: StoredRecord, request_counts: int | None) -> bool:
    return request_counts is None or _HEAD.decode(stored.raw).request_counts == request_counts


def _begins(stored: StoredRecord, request_counts: int) -> bool:
    """Whether that attempt, or one before it, began with this record."""
    counts = _HEAD.decode(stored.raw).request_counts if stored.is_a(AttemptStarted) else None
    return counts is not None and counts <= request_counts


def _end_in(stored: StoredRecord) -> AttemptEnded | None:
    record = stored.decode() if stored.is_a(AttemptEnded) else None
    return record if isinstance(record, AttemptEnded) else None


def _in_order(found: Mapping[Place, Detail], ended: AttemptEnded | None) -> ShownRecords:
    return ShownRecords([found[place] for place in sorted(found)], ended)
