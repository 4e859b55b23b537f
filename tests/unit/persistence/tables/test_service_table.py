"""The table of services: what is put is read back, and a job has one owner (SPEC sections 11, 12)."""

import gc
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from scheduler_service.domain.registered_services import Applied
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.tables.service_table import SqlServiceTable
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.persistence.conftest import opened_table
from tests.unit.persistence.tables.samples import FULL, PLAIN

pytestmark = pytest.mark.anyio
DONE = Applied("default", "shop", "job", b"d", "uid", 2, removed_at=5, paused=True, finished=True)


@pytest.fixture
async def table(url: str) -> AsyncIterator[SqlServiceTable]:
    async with opened_table(SqlServiceTable, url) as table:
        yield table


async def test_a_service_is_read_back_as_it_was_put(table: SqlServiceTable) -> None:
    """Every member, in order of tenant and name."""
    await table.put(FULL, b'[{"jobId": "job"}]')
    await table.put(PLAIN)
    assert await table.services() == [PLAIN, FULL]
    assert await table.timers("default", "shop") == b'[{"jobId": "job"}]'
    assert await table.timers("default", "billing") == b"[]"
    assert await table.timers("other", "shop") == b"[]"


async def test_declared_bytes_are_those_of_one_and_of_all(table: SqlServiceTable) -> None:
    """Bytes, not letters; where nothing is known, none."""
    assert await table.declared_bytes("default", "shop") == (0, 0)
    await table.put(FULL, '["ä"]'.encode())
    await table.put(PLAIN)
    assert await table.declared_bytes("default", "shop") == (6, 8)
    assert await table.declared_bytes("other", "shop") == (0, 8)


async def test_timers_stay_where_none_are_given(table: SqlServiceTable) -> None:
    """A service that says nothing of its timers keeps those that it declared (SPEC section 13)."""
    await table.put(FULL, b"[1]")
    await table.put(msgspec.structs.replace(FULL, address=None))
    assert await table.timers("default", "shop") == b"[1]"
    assert [one.address for one in await table.services()] == [None]
    # A second declaration replaces it
    timers = bytes(range(256)) * ((4 << 20) // 256)
    await table.put(FULL, timers)
    assert await table.timers("default", "shop") == timers
    await table.put(FULL, b"[2]")
    assert await table.timers("default", "shop") == b"[2]"


async def test_what_was_done_is_read_back_per_service(table: SqlServiceTable) -> None:
    """A job has one row and one owner, whoever declares it."""
    other = msgspec.structs.replace(DONE, service="billing", job_id="another", removed_at=None)
    await table.note([DONE, other], [])
    assert await table.applied("default", "shop") == [DONE]
    assert await table.applied("default", "billing") == [other]
    assert await table.owner("default", "job", DONE.uid) == "shop"
    assert await table.owner("default", "job", "another life") is None
    assert await table.owner("other", "job", DONE.uid) is None
    taken = msgspec.structs.replace(DONE, service="billing")
    await table.note([taken], [])
    assert await table.applied("default", "shop") == []
    await table.note([], [DONE])  # who has lost it removes nothing
    assert await table.applied("default", "billing") == [other, taken]
    await table.note([], [taken])
    assert await table.applied("default", "billing") == [other]


async def test_many_rows_leave_little_to_the_collector(tmp_path: Path) -> None:
    """A statement is built for all of them: one for each leaves sixty objects that only the collector finds.

    A round over so many holds the interpreter, in whatever thread it begins. What there was before is frozen:
    of it nothing is found, whatever ends meanwhile.
    """
    database = HistoryDatabase(url=f"sqlite:///{tmp_path}/history.db", durability="process")
    table = SqlServiceTable(database=database)
    many = [msgspec.structs.replace(DONE, job_id=f"job-{number}") for number in range(200)]
    found = []
    gc.disable()
    try:
        for kept, dropped in ((many, []), ([], many)):
            gc.freeze()
            await table.note(kept, dropped)
            found.append(gc.collect())
    finally:
        gc.enable()
    assert await table.applied("default", "shop") == []
    assert max(found) < 5 * len(many), found
    await table.close()
    database.close()


async def test_a_dropped_service_takes_its_rows_along(table: SqlServiceTable) -> None:
    """Nothing is left of it."""
    await table.put(FULL)
    await table.note([DONE], [])
    await table.drop("default", "shop")
    assert await table.services() == []
    assert await table.applied("default", "shop") == []


async def test_a_write_is_all_or_nothing(tmp_path: Path) -> None:
    """A row that cannot be written takes the others of its transaction back (SPEC section 12)."""
    database = HistoryDatabase(url=f"sqlite:///{tmp_path}/history.db", durability="process")
    table = SqlServiceTable(database=database)
    broken = msgspec.structs.replace(DONE, job_id="broken", digest=None)  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await table.note([DONE, broken], [])
    assert await table.applied("default", "shop") == []
    await table.close()
    database.close()


async def test_a_database_that_cannot_answer_is_unavailable(tmp_path: Path) -> None:
    """Nothing is done then, and the message says where to look."""
    database = HistoryDatabase(url=f"sqlite:///{tmp_path}/history.db", durability="process")
    table = SqlServiceTable(database=database)
    with database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE manager_service")
    with pytest.raises(StoreUnavailable, match="check its folder"):
        await table.put(PLAIN)
    await table.close()
    database.close()
