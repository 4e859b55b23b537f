"""The table of stored secrets: what one process writes, another one sees (SPEC section 14)."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from scheduler_service.persistence.secrets.secret_table import SqlSecretTable
from scheduler_service.ports.secrets import StoredSecret
from tests.unit.persistence.conftest import opened_table

pytestmark = pytest.mark.anyio
ONE = StoredSecret("default", "TOKEN", b"\x00\xffsealed", 1_000, 1_000)


@pytest.fixture
async def table(url: str) -> AsyncIterator[SqlSecretTable]:
    async with opened_table(SqlSecretTable, url) as table:
        yield table


async def test_a_secret_is_read_back_as_it_was_put(table: SqlSecretTable) -> None:
    """Of all tenants; a large one as well."""
    assert await table.secrets() == ((0, 0), [])
    large = StoredSecret("team", "TOKEN", b"\xfe" * 40_000, 2_000, 2_000)
    await table.put(large)
    await table.put(ONE)
    mark, found = await table.secrets()
    assert found == [ONE, large]
    assert mark == await table.mark()


async def test_each_change_has_another_mark(table: SqlSecretTable) -> None:
    """Also where one is removed and put again in one moment; it begins anew then."""
    marks = [await table.mark()]
    changes = [ONE, replace(ONE, sealed=b"other", created_at=5_000, updated_at=5_000)]
    changes += [replace(ONE, sealed=b"", updated_at=6_000), replace(ONE, created_at=7_000, updated_at=7_000)]
    for change in changes:
        await table.put(change)
        marks.append(await table.mark())
    assert len(set(marks)) == len(marks)
    assert (await table.secrets())[1] == [replace(ONE, created_at=7_000, updated_at=7_000)]


async def test_a_changed_secret_keeps_its_begin(table: SqlSecretTable) -> None:
    """A removed one is not read any more, and nothing of it is kept."""
    await table.put(ONE)
    await table.put(replace(ONE, sealed=b"other", created_at=5_000, updated_at=5_000))
    assert (await table.secrets())[1] == [replace(ONE, sealed=b"other", updated_at=5_000)]
    await table.put(replace(ONE, sealed=b""))
    assert (await table.secrets())[1] == []
