"""The log of an execution: everything that happened to it, in order of time."""

from collections.abc import Iterable

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    Detail,
    Exchange,
    FeedbackSeen,
    LeaseChanged,
    Noted,
    StepEnded,
)
from scheduler_service.persistence.history.coalesce import DeliveryDetail
from scheduler_service.persistence.history.queries import Wire

AnyRow = sa.Row[tuple[object, ...]]
TRIGGERS = {
    TriggeredBy.TIMER.value: "triggered by the timer",
    TriggeredBy.MANUAL.value: "triggered manually",
    TriggeredBy.REPLAY.value: "triggered by a replay",
    TriggeredBy.TRIAL.value: "triggered as a trial",
}


class Line(msgspec.Struct, frozen=True):
    """One line of the log."""

    at: int
    kind: str
    text: str
    request_counts: int | None = None
    step: int | None = None

    def wire(self) -> Wire:
        """The line as the API returns it."""
        return {
            "at": rfc3339(self.at),
            "kind": self.kind,
            "requestCounts": self.request_counts,
            "step": self.step,
            "text": self.text,
        }


def write_log(execution: AnyRow, records: Iterable[Detail], deliveries: Iterable[AnyRow]) -> list[Line]:
    """The lines in order of time; what happened in one moment keeps the order of its turns."""
    lines = [Line(execution.created_at, "created", TRIGGERS[execution.triggered_by])]
    lines += [_record_line(record) for record in records]
    for row in deliveries:
        lines += _delivery_lines(row)
    if execution.ended_at is not None:
        lines.append(
            Line(execution.ended_at, "ended", _join(execution.state, execution.error, execution.reason))
        )
    return sorted(lines, key=lambda line: line.at)


def _record_line(record: Detail) -> Line:
    match record:
        case AttemptStarted():
            return Line(record.at, "attempt", _join("started", record.reason), record.request_counts)
        case AttemptEnded():
            return Line(record.at, "attempt", _ending(record), record.request_counts)
        case StepEnded():
            text = _join(_exchange(record.exchange), record.error)
            return Line(record.at, "step", text, record.request_counts, record.index)
        case CheckEnded():
            text = _join(_exchange(record.exchange), record.status, record.progress, record.error)
            return Line(record.at, "check", text, record.request_counts)
        case FeedbackSeen():
            text = _join("stale" if record.stale else None, record.body.decode("utf-8", "replace"))
            return Line(record.at, "feedback", text, record.request_counts)
        case LeaseChanged():
            part = "" if record.part is None else f", part {record.part}"
            text = f"{record.what}: {record.instance}{part}"
            return Line(record.at, "lease", text, record.request_counts, record.index)
        case Noted():
            return Line(record.at, record.kind, record.text, record.request_counts, record.step)


def _ending(record: AttemptEnded) -> str:
    if record.error is None:
        return "succeeded"
    retry = None if record.retry_in is None else f"again in {record.retry_in} ms"
    return _join("failed", record.error, record.message, retry)


def _exchange(exchange: Exchange) -> str:
    answer = exchange.fault if exchange.status is None else str(exchange.status)
    return f"{exchange.method} {exchange.url} → {answer} ({exchange.duration} ms)"


def _delivery_lines(row: AnyRow) -> list[Line]:
    detail = msgspec.msgpack.decode(row.payload, type=DeliveryDetail)
    return [
        Line(
            one.at,
            "notification",
            f"{row.event} → {row.url}: {one.fault if one.status is None else one.status} ({one.duration} ms)",
            row.request_counts,
        )
        for one in detail.tries
    ]


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)
