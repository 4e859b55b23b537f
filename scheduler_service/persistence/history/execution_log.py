"""The log of an execution: everything that happened to it, in order of time."""

import heapq
from collections.abc import Generator, Iterator

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
from scheduler_service.domain.texts import cut
from scheduler_service.language.json_values import show_text
from scheduler_service.persistence.common.pagination import Number
from scheduler_service.persistence.history.answer_budget import MOST_NOTIFICATIONS
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.row_merging import DeliveryDetail
from scheduler_service.persistence.history.stored_records import (
    Place,
    StoredRecord,
    read_newest_first,
    read_notifications,
)

AnyRow = sa.Row[tuple[object, ...]]
MOST_LINES = 20_000
"""The log shows so many of the newest records."""
LINE_CHARACTERS = 1_000
LEFT_OUT = (
    f"earlier lines are left out: a log has the newest {MOST_LINES:,} records and of the newest "
    f"{MOST_NOTIFICATIONS:,} notifications their tries"
)
TRIGGERS = {
    TriggeredBy.TIMER.value: "triggered by the timer",
    TriggeredBy.MANUAL.value: "triggered manually",
    TriggeredBy.REPLAY.value: "triggered by a replay",
    TriggeredBy.TRIAL.value: "triggered as a trial",
    TriggeredBy.BACKFILL.value: "triggered by a backfill",
}


class LinePlace(msgspec.Struct, frozen=True, array_like=True, order=True, forbid_unknown_fields=True):
    """Where a line stands: its moment, and in one moment its kind, its turn or delivery, its number there."""

    at: Number
    kind: Number
    turn: Number
    number: Number
    name: str


class LogLine(msgspec.Struct, frozen=True):
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
            "text": cut(self.text, LINE_CHARACTERS),
        }


PlacedLine = tuple[LinePlace, LogLine]


def read_lines(
    connection: sa.Connection, execution: AnyRow, *, after: LinePlace | None, limit: int
) -> list[PlacedLine]:
    """The first `limit` lines after that place; what happened in one moment keeps the order of its turns.

    No more lines than that are held at once.
    """
    lines = _read_all(connection, execution)
    return heapq.nsmallest(limit, (one for one in lines if after is None or one[0] > after), key=_place_of)


def _place_of(line: PlacedLine) -> LinePlace:
    return line[0]


def _read_all(connection: sa.Connection, execution: AnyRow) -> Iterator[PlacedLine]:
    """All lines, in no order."""
    created, ended = execution.created_at, execution.ended_at
    yield LinePlace(created, 0, 0, 0, ""), LogLine(created, "created", TRIGGERS[execution.triggered_by])
    is_whole = yield from _record_lines(connection, execution)
    is_whole &= yield from _notification_lines(connection, execution)
    if not is_whole:
        yield LinePlace(created, 1, 0, 0, ""), LogLine(created, "left_out", LEFT_OUT)
    if ended is not None:
        text = _join(execution.state, execution.error, execution.reason)
        yield LinePlace(ended, 4, 0, 0, ""), LogLine(ended, "ended", text)


def _record_lines(connection: sa.Connection, execution: AnyRow) -> Generator[PlacedLine, None, bool]:
    """A line for each of the newest records, each once; whether these are all."""
    seen: set[Place] = set()
    for stored in read_newest_first(connection, execution.uid, execution.execute_number):
        if stored.place in seen:
            continue
        if len(seen) == MOST_LINES:
            return False
        seen.add(stored.place)
        yield _placed(stored)
    return True


def _notification_lines(connection: sa.Connection, execution: AnyRow) -> Generator[PlacedLine, None, bool]:
    """The tries of the newest notifications; whether these are all."""
    most = MOST_NOTIFICATIONS + 1
    found = read_notifications(connection, execution.uid, execution.execute_number, most=most)
    for number, row in enumerate(found, 1):
        if number == most:
            return False
        yield from _delivery_lines(row)
    return True


def _placed(stored: StoredRecord) -> PlacedLine:
    line = _record_line(stored.decode())
    return LinePlace(line.at, 2, stored.sequence, stored.ordinal, ""), line


def _record_line(record: Detail) -> LogLine:
    match record:
        case AttemptStarted():
            return LogLine(record.at, "attempt", _join("started", record.reason), record.request_counts)
        case AttemptEnded():
            return LogLine(record.at, "attempt", _ending(record), record.request_counts)
        case StepEnded():
            text = _join(_exchange(record.exchange), record.error)
            return LogLine(record.at, "step", text, record.request_counts, record.index)
        case CheckEnded():
            text = _join(_exchange(record.exchange), record.status, record.progress, record.error)
            return LogLine(record.at, "check", text, record.request_counts)
        case FeedbackSeen():
            text = _join("stale" if record.stale else None, show_text(record.body))
            return LogLine(record.at, "feedback", text, record.request_counts)
        case LeaseChanged():
            part = "" if record.part is None else f", part {record.part}"
            text = f"{record.what}: {record.instance}{part}"
            return LogLine(record.at, "lease", text, record.request_counts, record.index)
        case Noted():
            return LogLine(record.at, record.kind, record.text, record.request_counts, record.step)


def _ending(record: AttemptEnded) -> str:
    if record.error is None:
        return "succeeded"
    retry = None if record.retry_in is None else f"again in {record.retry_in} ms"
    return _join("failed", record.error, record.message, retry)


def _exchange(exchange: Exchange) -> str:
    answer = exchange.fault if exchange.status is None else str(exchange.status)
    return f"{exchange.method} {exchange.url} → {answer} ({exchange.duration} ms)"


def _delivery_lines(row: AnyRow) -> Iterator[PlacedLine]:
    detail = msgspec.msgpack.decode(row.payload, type=DeliveryDetail)
    for number, one in enumerate(detail.tries):
        answer = ", ".join(str(said) for said in (one.status, one.fault) if said is not None)
        text = f"{row.event} → {row.url}: {answer} ({one.duration} ms)"
        place = LinePlace(one.at, 3, row.created_at, number, row.delivery_id)
        yield place, LogLine(one.at, "notification", text, row.request_counts)


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)
