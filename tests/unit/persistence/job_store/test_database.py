"""What waits together at the shared database is one transaction, and what is joint one call."""

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.job_store.claim_rows import SettledDeliveries
from scheduler_service.persistence.job_store.database import (
    CALM_SECONDS,
    GROUP_BYTES,
    GroupedWork,
    JobDatabase,
    divide,
    weigh,
)
from scheduler_service.persistence.sql.database import OpenDatabase
from scheduler_service.persistence.sql.sqlite import SqliteDialect
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Settlement
from tests.fault_points import EachPoint
from tests.unit.persistence.samples import claim, delivery

pytestmark = pytest.mark.anyio
VALUES = 100


async def test_a_defect_of_one_write_is_told_to_its_caller() -> None:
    """The others of its group are written, and the thread takes further ones."""

    def break_down(connection: sa.Connection) -> None:
        raise ZeroDivisionError

    database = await JobDatabase.open(url="sqlite://")
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

    database = await JobDatabase.open(url="sqlite://")
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

    database = await JobDatabase.open(url="sqlite://")
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

    database = await JobDatabase.open(url="sqlite://")
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
    database = await JobDatabase.open(url="sqlite://")
    await database.close()
    for ask in (database.read, database.write_apart, database.write):
        with pytest.raises(StoreUnavailable):
            await ask(lambda connection: 1)
    with pytest.raises(StoreUnavailable):
        await database.read_together(lambda connection, values: values, 1)


THIRD = b"x" * (GROUP_BYTES // 3)
LARGE = replace(delivery(1), request=OutboundRequest("POST", "http://t/x", (), 2 * THIRD))


def _write_none(connection: sa.Connection, values: Sequence[object]) -> list[None]:
    return [None] * len(values)


def test_what_is_small_is_one_group() -> None:
    """The list as it was given."""
    works: list[Any] = [GroupedWork(_write_none, claim(f"job-{number}")) for number in range(1_000)]
    ((group, size),) = divide(works, sum(map(weigh, works)))
    assert group is works
    assert size == sum(map(weigh, works))


def test_what_is_large_is_several_groups_in_order() -> None:
    """States, definitions and bodies of notifications count; a write is never divided."""
    values: list[object] = [
        claim("a", state=THIRD),
        claim("b", definition=THIRD),
        "of no weight",
        claim("c", deliveries=(LARGE,)),
        SettledDeliveries((Settlement(LARGE, done=False),)),
        claim("d", state=9 * THIRD),
        claim("e"),
        claim("f", state=THIRD),
    ]
    works: list[Any] = [GroupedWork(_write_none, value) for value in values]
    groups = list(divide(works, sum(map(weigh, works))))
    assert [len(group) for group, _ in groups] == [3, 1, 1, 1, 2]
    assert [size for _, size in groups] == [sum(map(weigh, group)) for group, _ in groups]
    assert [work.value for group, _ in groups for work in group] == values


class Disk(EachPoint):
    """A disk that is full while it is told to be, before or after a commit; and a clock."""

    def __init__(self, when: str) -> None:
        self.is_full = False
        self.now = 0.0
        self.told: list[str | None] = []
        self._when = when

    def at(self, place: str) -> None:
        if self.is_full and place.startswith(self._when):
            raise sqlite3.OperationalError("database or disk is full")

    def open(self) -> JobDatabase:
        """A database on it."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        database = OpenDatabase(
            SqliteDialect.over(connection, subject="a test"),
            in_memory=True,
            faults=self,
            commit_point=FaultPoint.COMMIT,
            unconfirmed=StoreUncertain,
        )
        loop = asyncio.get_running_loop()
        return JobDatabase(database, loop=loop, on_trouble=self.told.append, clock=lambda: self.now)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_trouble_is_told_and_its_end(when: str) -> None:
    """Each group that fails; the end when writing has not failed for a second."""
    disk = Disk(when)
    database = disk.open()
    await database.write(lambda _: None)
    disk.is_full = True
    for _ in range(2):
        with pytest.raises(StoreError):
            await database.write(lambda _: None)
    disk.is_full = False
    await database.write(lambda _: None)
    assert [text is not None and "disk is full" in text for text in disk.told] == [True, True]
    disk.now += CALM_SECONDS
    await database.write(lambda _: None)
    await database.write(lambda _: None)
    assert disk.told[2:] == [None]
    await database.close()


async def test_the_fault_of_one_write_is_no_trouble_of_the_store() -> None:
    """A conflict is an answer."""
    disk = Disk("before")
    database = disk.open()
    with pytest.raises(StoreConflict):
        await database.write(lambda _: StoreConflict("late"))
    assert disk.told == []
    await database.close()
