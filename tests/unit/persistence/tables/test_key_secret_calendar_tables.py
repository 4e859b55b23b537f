"""Tables that processes share: what one writes, another one sees (SPEC sections 3 and 14)."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from scheduler_service.domain.keys_and_roles import AccessKey, Role
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sql.sqlite import IN_MEMORY
from scheduler_service.persistence.tables.key_secret_calendar_tables import (
    SqlCalendarTable,
    SqlKeyTable,
    SqlSecretTable,
    has_keys,
)
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_tables import StoredCalendar, StoredSecret
from tests.unit.persistence.conftest import opened_table

pytestmark = pytest.mark.anyio
PLAIN = AccessKey(
    key_id="0123456789abcdef",
    tenant="default",
    name="ci",
    role=Role.VIEWER,
    digest=b"\x00\xff" * 16,
    created_at=1,
    created_by="admin",
)
FULL = AccessKey(
    key_id="fedcba9876543210",
    tenant="shop",
    name="Ünï ✓",
    role=Role.EDITOR,
    digest=b"d" * 32,
    created_at=2,
    created_by="纯",
    service="billing",
    labels=("team:ops", "empty:"),
    earlier=b"e" * 32,
    earlier_until=9,
    expires_at=10,
    last_used_at=5,
    revoked_at=7,
    rotations=1,
    version=3,
    ended=(("ab", 5), ("cd", 6)),
)


@pytest.fixture
async def keys(url: str) -> AsyncIterator[SqlKeyTable]:
    async with opened_table(SqlKeyTable, url) as table:
        yield table


async def test_a_key_is_read_back_as_it_was_added(keys: SqlKeyTable, url: str) -> None:
    """Every member, in order of creation; a command without a service sees whether there is any."""
    assert await keys.keys() == ((0, 0), [])
    assert url == IN_MEMORY or not has_keys(url=url)
    await keys.add(FULL)
    await keys.add(PLAIN)
    assert (await keys.keys())[1] == [PLAIN, FULL]
    assert url == IN_MEMORY or has_keys(url=url)


async def test_each_change_of_a_key_has_another_mark(keys: SqlKeyTable) -> None:
    """And of two who change one key the second one is told so."""
    marks = [await keys.mark()]
    await keys.add(PLAIN)
    marks.append(await keys.mark())
    assert await keys.replace(replace(PLAIN, revoked_at=5))
    marks.append(await keys.mark())
    assert not await keys.replace(replace(PLAIN, revoked_at=6))
    assert len(set(marks)) == 3
    found = await keys.keys()
    assert found == (marks[-1], [replace(PLAIN, revoked_at=5, version=2)])
    assert await keys.mark() == marks[-1]


async def test_of_two_keys_that_end_each_other_one_stays(keys: SqlKeyTable) -> None:
    """At one moment too, at whichever nodes: who is late is told so, and nothing of his is written."""
    here, there = PLAIN, replace(PLAIN, key_id="fedcba9876543210", created_at=2)
    for key in (here, there):
        await keys.add(key)
    outcomes = await asyncio.gather(
        keys.revoke(replace(here, revoked_at=5), there), keys.revoke(replace(there, revoked_at=6), here)
    )
    ends = {(True, False): [5, None], (False, True): [None, 6]}
    mark, found = await keys.keys()
    assert [one.revoked_at for one in found] == ends[outcomes[0], outcomes[1]]
    assert [one.version for one in found] == [2, 2]
    assert not await keys.revoke(replace(found[0], revoked_at=7), there)
    assert await keys.keys() == (mark, found)


async def test_the_last_use_of_several_nodes_is_the_latest(keys: SqlKeyTable) -> None:
    """It is no change: nobody reads the keys anew for it, and a change of the key leaves it."""
    await keys.add(PLAIN)
    mark = await keys.mark()
    for at in (5, 9, 7):
        await keys.note_uses({PLAIN.key_id: at, "nobody": at})
    assert (await keys.mark(), (await keys.keys())[1][0].last_used_at) == (mark, 9)
    assert await keys.replace(replace(PLAIN, name="new"))
    assert (await keys.keys())[1] == [replace(PLAIN, name="new", last_used_at=9, version=2)]


async def test_a_file_that_nobody_wrote_to_is_not_read_again(tmp_path: Path) -> None:
    """What any process commits is seen at once, also where the files look as before it: their clock may be
    coarse, and the log is written some time before the commit counts.
    """
    place = tmp_path / "history.db"
    databases = [HistoryDatabase(url=f"sqlite:///{place}", durability="process") for _ in range(2)]
    here, there = (SqlKeyTable(database=one) for one in databases)

    def age() -> list[int]:
        for end in ("", "-wal"):
            os.utime(f"{place}{end}", (1_000, 1_000))
        return [Path(f"{place}{end}").stat().st_size for end in ("", "-wal")]

    age()
    assert await here.mark() == (0, 0)
    await there.add(PLAIN)
    assert await here.mark() == (1, 1)
    with contextlib.closing(sqlite3.connect(place)) as raw:
        raw.execute("PRAGMA wal_checkpoint")  # what comes next is written from the start of the log
        sizes = age()
        assert await here.mark() == (1, 1)
        await there.replace(PLAIN)
        assert age() == sizes
        assert await here.mark() == (1, 2)
    assert await here.replace(replace(PLAIN, version=2))
    assert await here.mark() == (1, 3)
    await here.close()
    assert await here.mark() == (1, 3)
    await there.replace(replace(PLAIN, version=3))
    with pytest.raises(StoreUnavailable):
        await here.mark()
    await there.close()
    for database in databases:
        database.close()


ONE = StoredSecret("default", "TOKEN", b"\x00\xffsealed", 1_000, 1_000)


@pytest.fixture
async def secrets(url: str) -> AsyncIterator[SqlSecretTable]:
    async with opened_table(SqlSecretTable, url) as table:
        yield table


async def test_a_secret_is_read_back_as_it_was_put(secrets: SqlSecretTable) -> None:
    """Of all tenants; a large one as well."""
    assert await secrets.secrets() == ((0, 0), [])
    large = StoredSecret("team", "TOKEN", b"\xfe" * 40_000, 2_000, 2_000)
    await secrets.put(large)
    await secrets.put(ONE)
    mark, found = await secrets.secrets()
    assert found == [ONE, large]
    assert mark == await secrets.mark()


async def test_each_change_of_a_secret_has_another_mark(secrets: SqlSecretTable) -> None:
    """Also where one is removed and put again in one moment; it begins anew then."""
    marks = [await secrets.mark()]
    changes = [ONE, replace(ONE, sealed=b"other", created_at=5_000, updated_at=5_000)]
    changes += [replace(ONE, sealed=b"", updated_at=6_000), replace(ONE, created_at=7_000, updated_at=7_000)]
    for change in changes:
        await secrets.put(change)
        marks.append(await secrets.mark())
    assert len(set(marks)) == len(marks)
    assert (await secrets.secrets())[1] == [replace(ONE, created_at=7_000, updated_at=7_000)]


async def test_a_changed_secret_keeps_its_begin(secrets: SqlSecretTable) -> None:
    """A removed one is not read any more, and nothing of it is kept."""
    await secrets.put(ONE)
    await secrets.put(replace(ONE, sealed=b"other", created_at=5_000, updated_at=5_000))
    assert (await secrets.secrets())[1] == [replace(ONE, sealed=b"other", updated_at=5_000)]
    await secrets.put(replace(ONE, sealed=b""))
    assert (await secrets.secrets())[1] == []


@pytest.fixture
async def calendars(url: str) -> AsyncIterator[SqlCalendarTable]:
    async with opened_table(SqlCalendarTable, url) as table:
        yield table


async def test_a_calendar_is_read_back_with_its_version(calendars: SqlCalendarTable) -> None:
    """Each change is another one, a removal too; a large one as well."""
    assert await calendars.calendars() == ((0, 0), [])
    large = b"{" + b" " * 100_000 + b"}"
    await calendars.put("team", "work", large, 1_000)
    await calendars.put("default", "work", b"{}", 2_000)
    await calendars.put("team", "work", b"{}", 3_000)
    mark, found = await calendars.calendars()
    assert found == [
        StoredCalendar("default", "work", b"{}", 1, 0, 2_000, 2_000),
        StoredCalendar("team", "work", b"{}", 2, 0, 1_000, 3_000),
    ]
    assert mark == await calendars.mark()
    await calendars.put("team", "work", b"-{}", 4_000)
    await calendars.put("team", "work", large, 5_000)
    assert (await calendars.calendars())[1][1] == StoredCalendar("team", "work", large, 4, 0, 5_000, 5_000)
    assert await calendars.mark() != mark


async def test_a_calendar_is_changed_only_where_it_is_as_expected(calendars: SqlCalendarTable) -> None:
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
        stored = await calendars.put("default", "work", document, 1_000, expected=frozenset({expected}))
        assert stored is is_stored, (expected, document)
    assert (await calendars.calendars())[1][0].version == 3


async def test_two_nodes_may_store_the_first_version_of_a_calendar(url: str) -> None:
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


async def test_a_removed_calendar_is_restored_unless_it_was_changed(calendars: SqlCalendarTable) -> None:
    """As it was, with the moment of its removal."""
    await calendars.put("default", "work", b"{}", 1_000)
    await calendars.put("default", "work", b"-{}", 2_000)
    ((removed,), mark) = (await calendars.calendars())[1], await calendars.mark()
    assert removed.is_removed
    assert await calendars.restore(removed)
    assert (await calendars.calendars())[1] == [StoredCalendar("default", "work", b"{}", 3, 0, 1_000, 2_000)]
    assert await calendars.mark() != mark
    assert not await calendars.restore(removed)


async def test_what_all_jobs_have_followed_is_noted(calendars: SqlCalendarTable) -> None:
    """And never goes back."""
    await calendars.put("default", "work", b"{}", 1_000)
    await calendars.put("default", "work", b"[]", 1_000)
    before = await calendars.mark()
    await calendars.note_told("default", "work", 2)
    await calendars.note_told("default", "work", 1)
    assert (await calendars.calendars())[1][0].told == 2
    assert await calendars.mark() != before
