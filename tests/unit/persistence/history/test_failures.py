"""The attempts with which executions failed are found among what turns wrote."""

from collections import namedtuple
from typing import Any

import pytest

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.persistence.history.failures import AT_ONCE, read_failures
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio
Row = namedtuple("Row", "uid execute_number sequence error")
BAD: dict[str, Any] = {"error": "500", "failure_type": FailureType.HTTP}


def failed(number: int, message: str, request_counts: int = 1) -> AttemptEnded:
    return AttemptEnded(number, request_counts, START, message=message, **BAD)


def find(room: Room, *rows: Row) -> dict[tuple[str, int], str | None]:
    """The messages that were found."""
    with room.database.reading() as connection:
        return {key: one.message for key, one in read_failures(connection, rows).items()}


async def test_the_last_attempt_of_the_turn_is_found(room: Room) -> None:
    """Of an earlier turn nothing is read; an execution without an error is not looked for."""
    await write(
        room,
        batch(1, execution(1, "failed", **BAD), failed(1, "the first")),
        batch(2, execution(1, "terminated", **BAD), failed(1, "the second", 2)),
        batch(3, execution(2, "terminated", **BAD), failed(2, "of another")),
    )
    assert find(room, Row("u1", 1, 2, "500")) == {("u1", 1): "the second"}
    assert find(room, Row("u1", 1, 2, None), Row("u1", 9, 1, "500")) == {}
    assert find(room) == {}


async def test_more_are_found_than_are_looked_for_at_once(room: Room) -> None:
    """Each with its own."""
    numbers = range(1, AT_ONCE + 2)
    await write(
        room,
        *(batch(one, execution(one, "terminated", **BAD), failed(one, f"no {one}")) for one in numbers),
    )
    found = find(room, *(Row("u1", one, one, "500") for one in numbers))
    assert found == {("u1", one): f"no {one}" for one in numbers}


async def test_an_execution_whose_detail_is_gone_has_none(room: Room) -> None:
    """As where the history keeps no detail."""
    await write(room, batch(1, execution(1, "terminated", **BAD)))
    assert find(room, Row("u1", 1, 1, "500")) == {}
