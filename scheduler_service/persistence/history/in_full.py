"""Executions in full: with attempts and notifications, as far as there is room in the answer."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.history.answer_room import AnswerRoom
from scheduler_service.persistence.history.detail import assemble_attempts, parse_kept, trace_id
from scheduler_service.persistence.history.log import AnyRow
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.selections import select_newest
from scheduler_service.persistence.history.shapes import execution_wire, notification_wire
from scheduler_service.persistence.history.shown_records import ShownRecords, read_shown, read_shown_attempt
from scheduler_service.persistence.history.stored_records import read_notifications


class NewestExecutions(msgspec.Struct, frozen=True):
    """The newest executions of the first `count` of some jobs; those of the others are not read."""

    items: list[Wire]
    count: int


def read_in_full(
    connection: sa.Connection, row: AnyRow, room: AnswerRoom, request_counts: int | None = None
) -> Wire:
    """The execution of `row`, or what it has of that attempt alone."""
    params = room.fit_params(row.params)
    shown = _read_records(connection, row, room, request_counts)
    notifications = _read_notifications(connection, row, room, request_counts)
    ended = shown.ended
    failure = ended if row.error is not None and ended is not None and ended.error is not None else None
    known = shown.records if ended is None else [*shown.records, ended]
    return {
        **execution_wire(row, failure),
        "traceId": trace_id(row, known),
        "detail": _detail_word(row, room),
        "params": None if params is None else parse_kept(params),
        "paramsComplete": bool(row.params_complete) and params is not None,
        "attempts": assemble_attempts(shown.records),
        "notifications": notifications,
    }


def read_newest_of_each(
    connection: sa.Connection, tenant: str, job_ids: Sequence[str], room: AnswerRoom, limit: int
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


def _read_records(
    connection: sa.Connection, row: AnyRow, room: AnswerRoom, request_counts: int | None
) -> ShownRecords:
    if request_counts is None:
        return read_shown(connection, row.uid, row.execute_number, room)
    return read_shown_attempt(connection, row.uid, row.execute_number, room, request_counts)


def _read_notifications(
    connection: sa.Connection, row: AnyRow, room: AnswerRoom, request_counts: int | None
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


def _detail_word(row: AnyRow, room: AnswerRoom) -> str:
    if row.dropped:
        return "dropped"
    return "partial" if room.has_left_out() else "kept"
