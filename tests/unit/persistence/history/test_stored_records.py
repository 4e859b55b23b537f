"""The stored records of an execution are read a few at a time, from either end."""

import pytest

from scheduler_service.domain.records import FeedbackSeen, StepEnded
from scheduler_service.persistence.history.answer_budget import BODIES_BYTES
from scheduler_service.persistence.history.stored_records import (
    PORTION_BYTES,
    ROWS,
    read_last_exchanges,
    read_newest_first,
    read_oldest_first,
)
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, batch, exchange, execution

pytestmark = pytest.mark.anyio


async def test_many_rows_are_read_in_portions(file_room: Room) -> None:
    """More rows than sizes are looked up at once, more bytes than are read at once."""
    body = b"x" * (PORTION_BYTES // 3)
    for number in range(1, 11):
        await write(file_room, batch(number, FeedbackSeen(1, 1, START, body)))
    small = [(1, number, number, b"\x90") for number in range(100, 100 + ROWS + 50)]
    with file_room.database.writing() as connection:
        connection.exec_driver_sql(
            "INSERT INTO entries (uid, execute_number, first, last, payload) VALUES ('u1', ?, ?, ?, ?)", small
        )
    with file_room.database.reading() as connection:
        places = [stored.place for stored in read_newest_first(connection, "u1", 1)]
        again = [stored.place for stored in read_oldest_first(connection, "u1", 1)]
    assert places == [(number, 0) for number in range(10, 0, -1)]
    assert again == places[::-1]


def step(request_counts: int, index: int, body: bytes, part: int | None = None) -> StepEnded:
    return StepEnded(1, request_counts, index, START, exchange(response_body=body), part=part)


async def responses(room: Room) -> dict[int, bytes | None]:
    with room.database.reading() as connection:
        found = read_last_exchanges(connection, "u1", 1)
    return {index: one.response_body for index, one in found.items()}


async def test_bodies_are_whole_however_much_came_after_them(file_room: Room) -> None:
    """No bound of an answer holds here: a replay needs exactly what was answered."""
    large = b"x" * (BODIES_BYTES // 2)
    steps = [step(1, index, large) for index in range(3)]
    await write(file_room, batch(1, execution(), *steps))
    later = [batch(number, FeedbackSeen(1, 1, START, b"{}")) for number in range(2, 5_700)]
    await write(file_room, *later)
    assert await responses(file_room) == dict.fromkeys(range(3), large)


async def test_parts_are_no_steps(room: Room) -> None:
    """The step as a whole has the response that later steps see."""
    await write(room, batch(1, execution(), step(1, 0, b"part", part=0), step(1, 0, b"whole")))
    assert await responses(room) == {0: b"whole"}


async def test_a_copy_of_an_earlier_attempt_is_not_the_last_one(room: Room) -> None:
    """Turns that were written twice after a crash lie in rows with later ones."""
    await write(room, batch(1, step(1, 0, b"a")), batch(2, step(1, 1, b"b")))
    await write(room, batch(2, step(1, 1, b"b")), batch(3, step(2, 0, b"c")))
    assert await responses(room) == {0: b"c"}
