"""Which records of an execution an answer shows: the newest, and the oldest few; or those of one attempt."""

from collections import deque
from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.records import AttemptEnded, AttemptStarted, Detail
from scheduler_service.persistence.history.answer_room import AnswerRoom
from scheduler_service.persistence.history.stored_records import (
    Place,
    StoredRecord,
    read_newest_first,
    read_oldest_first,
)

OLDEST_RECORDS = 512
"""So many of the oldest records are shown beside the newest: the first attempt's start and steps."""


class ShownRecords(msgspec.Struct, frozen=True):
    """The records in the order of their turns; `ended`: the end of the last attempt that ended, if known."""

    records: list[Detail]
    ended: AttemptEnded | None


class _Head(msgspec.Struct):
    """What is read of each record to see whether it is wanted."""

    request_counts: int | None = None


_HEAD = msgspec.msgpack.Decoder(_Head)


def read_shown(connection: sa.Connection, uid: str, execute_number: int, room: AnswerRoom) -> ShownRecords:
    """The newest records of an execution as far as `room` goes, then the oldest few; each once."""
    found: dict[Place, Detail] = {}
    for stored in read_newest_first(connection, uid, execute_number):
        if stored.place in found:
            continue
        if not room.take_record():
            if not found:  # executions before this one have used up the answer
                room.leave_out()
                return ShownRecords([], None)
            return _with_oldest(connection, uid, execute_number, room, found)
        found[stored.place] = room.fit_record(stored.decode())
    return _in_order(found, _last_end(found))


def read_shown_attempt(
    connection: sa.Connection, uid: str, execute_number: int, room: AnswerRoom, request_counts: int
) -> ShownRecords:
    """The same of one attempt alone; none where the execution has no such attempt."""
    found: dict[Place, Detail] = {}
    oldest: deque[StoredRecord] = deque(maxlen=OLDEST_RECORDS)
    ended: AttemptEnded | None = None
    for stored in read_newest_first(connection, uid, execute_number):
        if ended is None and stored.is_a(AttemptEnded):
            ended = _end_in(stored)
        counts = _HEAD.decode(stored.raw).request_counts
        if counts == request_counts and stored.place not in found:
            _add(stored, found, oldest, room)
        if counts is not None and counts <= request_counts and stored.is_a(AttemptStarted):
            break
    for stored in oldest:
        found[stored.place] = room.fit_record(stored.decode())
    return _in_order(found, ended)


def _end_in(stored: StoredRecord) -> AttemptEnded | None:
    end = stored.decode()
    return end if isinstance(end, AttemptEnded) else None


def _add(
    stored: StoredRecord, found: dict[Place, Detail], oldest: deque[StoredRecord], room: AnswerRoom
) -> None:
    if room.take_record():
        found[stored.place] = room.fit_record(stored.decode())
        return
    if len(oldest) == OLDEST_RECORDS:
        room.leave_out()
    oldest.append(stored.copy())


def _with_oldest(
    connection: sa.Connection, uid: str, execute_number: int, room: AnswerRoom, newest: dict[Place, Detail]
) -> ShownRecords:
    """With the oldest, which may reach to the newest: then all are there."""
    oldest: dict[Place, Detail] = {}
    for stored in read_oldest_first(connection, uid, execute_number):
        if stored.place in newest:
            break
        if stored.place in oldest:
            continue
        if len(oldest) == OLDEST_RECORDS:
            # An end among the oldest is that of an early attempt.
            room.leave_out()
            return _in_order(oldest | newest, _last_end(newest))
        oldest[stored.place] = room.fit_record(stored.decode())
    return _in_order(oldest | newest, _last_end(oldest | newest))


def _in_order(found: Mapping[Place, Detail], ended: AttemptEnded | None) -> ShownRecords:
    return ShownRecords([found[place] for place in sorted(found)], ended)


def _last_end(found: Mapping[Place, Detail]) -> AttemptEnded | None:
    ends = {place: record for place, record in found.items() if isinstance(record, AttemptEnded)}
    return ends[max(ends)] if ends else None
