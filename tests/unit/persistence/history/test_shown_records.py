"""Which records an answer shows of an execution with more than it has room for."""

from collections.abc import Iterable

import pytest

from scheduler_service.domain.records import AttemptEnded, AttemptStarted, Detail, FeedbackSeen, Record
from scheduler_service.persistence.history.answer_room import AnswerRoom
from scheduler_service.persistence.history.shown_records import (
    OLDEST_RECORDS,
    ShownRecords,
    read_shown,
    read_shown_attempt,
)
from scheduler_service.persistence.history.statements import ENTRIES
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, attempt, batch, execution

pytestmark = pytest.mark.anyio


def feedback(number: int, request_counts: int = 1) -> FeedbackSeen:
    return FeedbackSeen(1, request_counts, START + number, b"{}")


def read(room: Room, space: AnswerRoom, request_counts: int | None = None) -> ShownRecords:
    with room.database.reading() as connection:
        if request_counts is None:
            return read_shown(connection, "u1", 1, space)
        return read_shown_attempt(connection, "u1", 1, space, request_counts)


def moments(records: Iterable[Detail]) -> list[int]:
    return [record.at - START for record in records]


async def fill(room: Room, count: int) -> None:
    """So many records, of which the first begins the attempt; two turns share a row."""
    records: list[Record] = [AttemptStarted(1, 1, START), *map(feedback, range(1, count))]
    await write(room, *(batch(number, record) for number, record in enumerate(records, 1)))


async def test_the_newest_and_the_oldest_are_shown(file_room: Room) -> None:
    """Those between are left out."""
    await fill(file_room, OLDEST_RECORDS + 30)
    space = AnswerRoom(records=20)
    shown = moments(read(file_room, space).records)
    assert shown == [*range(OLDEST_RECORDS), *range(OLDEST_RECORDS + 10, OLDEST_RECORDS + 30)]
    assert space.has_left_out()


async def test_where_the_oldest_reach_to_the_newest_nothing_is_missing(room: Room) -> None:
    """The answer has all."""
    await fill(room, 40)
    space = AnswerRoom(records=20)
    assert moments(read(room, space).records) == [*range(40)]
    assert not space.has_left_out()


async def test_what_was_written_twice_counts_once(room: Room) -> None:
    """After a crash the writer may write turns again, in rows with others."""
    await write(room, batch(1, feedback(1)), batch(2, feedback(2)))
    await write(room, batch(2, feedback(2)), batch(3, feedback(3)))
    space = AnswerRoom(records=3)
    assert moments(read(room, space).records) == [1, 2, 3]
    assert not space.has_left_out()
    assert not space.take_record()


async def test_the_end_of_an_early_attempt_is_not_the_last_one(room: Room) -> None:
    """Where the records between are left out, how the last one ended may be unknown."""
    first = AttemptEnded(1, 1, START, "500", message="of the first")
    await write(room, batch(1, first), *(batch(number, feedback(number, 2)) for number in range(2, 600)))
    assert read(room, AnswerRoom(records=20)).ended is None
    assert read(room, AnswerRoom()).ended == first


async def test_one_attempt_alone(room: Room) -> None:
    """Its records, also those that came late; of the others the last end alone, which says why it failed."""
    await write(room, *(batch(number, *attempt(1, number, error="500")) for number in (1, 2, 3)))
    await write(room, batch(4, feedback(9, 2)), batch(5, execution()))
    space = AnswerRoom()
    found = read(room, space, 2)
    assert [type(record).__name__ for record in found.records] == [
        "AttemptStarted",
        "StepEnded",
        "AttemptEnded",
        "FeedbackSeen",
    ]
    assert {record.request_counts for record in found.records} == {2}
    assert found.ended is not None
    assert found.ended.request_counts == 3
    assert not space.has_left_out()


@pytest.mark.parametrize("request_counts", [0, 3, 9])
async def test_an_attempt_that_is_not_there_has_no_records(room: Room, request_counts: int) -> None:
    """Whether others are before or after it."""
    await write(room, *(batch(number, *attempt(1, number)) for number in (2, 4)))
    assert read(room, AnswerRoom(), request_counts).records == []


async def test_of_one_attempt_the_newest_and_the_oldest_are_shown(file_room: Room) -> None:
    """As of an execution."""
    await fill(file_room, OLDEST_RECORDS + 30)
    space = AnswerRoom(records=20)
    shown = moments(read(file_room, space, 1).records)
    assert shown == [*range(OLDEST_RECORDS), *range(OLDEST_RECORDS + 10, OLDEST_RECORDS + 30)]
    assert space.has_left_out()


async def test_an_attempt_is_read_no_further_than_its_start(room: Room) -> None:
    """Earlier records are of earlier attempts: one that cannot be read does no harm."""
    await write(room, batch(3, *attempt(1, 3)))
    with room.database.writing() as connection:
        row = ("u1", 1, 1, 1, bytearray(b"no"))
        room.database.dialect.insert_many(connection, ENTRIES, [row])
    assert len(read(room, AnswerRoom(), 3).records) == 3
