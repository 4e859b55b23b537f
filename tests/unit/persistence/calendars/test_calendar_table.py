"""The table of calendars: what one process writes, another one sees (SPEC section 3, Calendars)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler_service.persistence.calendars.calendar_table import SqlCalendarTable
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sql.sqlite import IN_MEMORY
from scheduler_service.ports.calendars import StoredCalendar
from tests.unit.persistence.conftest import opened_table

pytestmark = pytest.mark.anyio


@pytest.fixture
async def table(url: str) -> AsyncIterator[SqlCalendarTable]:
    async with opened_table(SqlCalendarTable, url) as table:
        yield table


async def test_a_calendar_is_read_back_with_its_version(table: SqlCalendarTable) -> None:
    """Each change is another one, a removal too; a large one as well."""
    assert await table.calendars() == ((0, 0), [])
    large = b"{" + b" " * 100_000 + b"}"
    await table.put("team", "work", large, 1_000)
    await table.put("default", "work", b"{}", 2_000)
    await table.put("team", "work", b"{}", 3_000)
    mark, found = await table.calendars()
    assert found == [
        StoredCalendar("default", "work", b"{}", 1, 0, 2_000, 2_000),
        StoredCalendar("team", "work", b"{}", 2, 0, 1_000, 3_000),
    ]
    assert mark == await table.mark()
    await table.put("team", "work", b"-{}", 4_000)
    await table.put("team", "work", large, 5_000)
    assert (await table.calendars())[1][1] == StoredCalendar("team", "work", large, 4, 0, 5_000, 5_000)
    assert await table.mark() != mark


async def test_it_is_changed_only_where_it_is_as_expected(table: SqlCalendarTable) -> None:
    """0 is that of one that is not there, or was removed."""
    steps = [
        (1, b"{}", False),
        (0, b"{}", True),
        (0, b"[]", False),
        (1, b"-{}", True),
        (2, b"[]", False),
        (0, b"{}", True),
    ]
    for expected, document, is_stored in steps:
        stored = await table.put("default", "work", document, 1_000, expected=frozenset({expected}))
        assert stored is is_stored, (expected, document)
    assert (await table.calendars())[1][0].version == 3


async def test_two_nodes_may_store_the_first_version_at_once(url: str) -> None:
    """Both are stored, one after the other; with `expected` one of them."""
    count = 1 if url == IN_MEMORY else 2
    databases = [HistoryDatabase(url=url, durability="process") for _ in range(count)]
    tables = [SqlCalendarTable(database=one) for one in databases]
    for number in range(20):
        for expected, stored in ((None, len(tables)), (frozenset({0}), 1)):
            name = f"{number}-{expected is None}"
            puts = (one.put("default", name, b"{}", 1_000, expected=expected) for one in tables)
            assert sum(await asyncio.gather(*puts)) == stored
    for table, database in zip(tables, databases, strict=True):
        await table.close()
        database.close()


async def test_a_removed_one_is_restored_unless_it_was_changed(table: SqlCalendarTable) -> None:
    """As it was, with the moment of its removal."""
    await table.put("default", "work", b"{}", 1_000)
    await table.put("default", "work", b"-{}", 2_000)
    ((removed,), mark) = (await table.calendars())[1], await table.mark()
    assert removed.is_removed
    assert await table.restore(removed)
    assert (await table.calendars())[1] == [StoredCalendar("default", "work", b"{}", 3, 0, 1_000, 2_000)]
    assert await table.mark() != mark
    assert not await table.restore(removed)


async def test_what_all_jobs_have_followed_is_noted(table: SqlCalendarTable) -> None:
    """And never goes back."""
    await table.put("default", "work", b"{}", 1_000)
    await table.put("default", "work", b"[]", 1_000)
    before = await table.mark()
    await table.note_told("default", "work", 2)
    await table.note_told("default", "work", 1)
    assert (await table.calendars())[1][0].told == 2
    assert await table.mark() != before
