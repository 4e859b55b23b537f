"""What waits together at the shared database is one transaction, and what is joint one call."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.ports.errors import StoreConflict, StoreUnavailable

pytestmark = pytest.mark.anyio

VALUES = 100


async def test_a_defect_of_one_write_is_told_to_its_caller() -> None:
    """The others of its group are written, and the thread takes further ones."""

    def break_down(connection: sa.Connection) -> None:
        raise ZeroDivisionError

    database = await SharedDatabase.open(url="sqlite://")
    try:
        works = [database.write(lambda connection: "written") for _ in range(2)]
        ends = await asyncio.gather(works[0], database.write(break_down), works[1], return_exceptions=True)
        assert [type(one) for one in ends] == [str, ZeroDivisionError, str]
        assert await database.write(lambda connection: 7) == 7
    finally:
        await database.close()


async def test_values_that_wait_together_are_one_call() -> None:
    """Each value has its own verdict, in its place, whatever else is in the group."""
    calls: list[Sequence[int]] = []

    def refuse_odd(connection: sa.Connection, values: list[int]) -> list[Any]:
        calls.append(values)
        return [StoreConflict(f"{one} is odd") if one % 2 else one for one in values]

    database = await SharedDatabase.open(url="sqlite://")
    try:
        work = [database.write_together(refuse_odd, value) for value in range(VALUES)]
        alone = database.write(lambda connection: connection.scalar(sa.select(sa.literal("alone"))))
        ends = await asyncio.gather(*work[:50], alone, *work[50:], return_exceptions=True)
    finally:
        await database.close()
    assert ends.pop(50) == "alone"
    assert ends[::2] == list(range(0, VALUES, 2))
    assert {type(one) for one in ends[1::2]} == {StoreConflict}
    assert calls == [list(range(VALUES))]


async def test_what_may_wait_is_written_with_what_comes_next() -> None:
    """A value of a later round of the loop joins it; alone it is written when its time is up."""
    calls: list[Sequence[int]] = []

    def note(connection: sa.Connection, values: list[int]) -> list[Any]:
        calls.append(list(values))
        return values

    database = await SharedDatabase.open(url="sqlite://")
    try:
        early = database.write_together(note, 1, may_wait=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await database.write_together(note, 2) == 2
        assert await early == 1
        assert await database.write_together(note, 3, may_wait=True) == 3
    finally:
        await database.close()
    assert calls == [[1, 2], [3]]


async def test_reads_that_wait_together_are_one_call() -> None:
    """Each caller gets what was read for its value; where the database cannot read, none does."""
    calls: list[Sequence[int]] = []

    def double(connection: sa.Connection, values: list[int]) -> list[Any]:
        calls.append(values)
        return [2 * one for one in values]

    def fail(connection: sa.Connection, values: list[int]) -> list[Any]:
        connection.exec_driver_sql("SELECT * FROM nowhere")
        return values

    database = await SharedDatabase.open(url="sqlite://")
    try:
        work = [database.read_together(double, value) for value in range(VALUES)]
        ends = await asyncio.gather(*work)
        failed = await asyncio.gather(
            *(database.read_together(fail, n) for n in (1, 2)), return_exceptions=True
        )
    finally:
        await database.close()
    assert ends == list(range(0, 2 * VALUES, 2))
    assert calls == [list(range(VALUES))]
    assert [type(one) for one in failed] == [StoreUnavailable] * 2


async def test_a_closed_database_is_unavailable() -> None:
    """Callers are still answered while a node closes: 503, and no fault of the service."""
    database = await SharedDatabase.open(url="sqlite://")
    await database.close()
    for ask in (database.read, database.write_apart, database.write):
        with pytest.raises(StoreUnavailable):
            await ask(lambda connection: 1)
    with pytest.raises(StoreUnavailable):
        await database.read_together(lambda connection, values: values, 1)
