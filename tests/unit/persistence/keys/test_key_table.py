"""The table of keys: what is added or changed is read back, by every process (SPEC section 14)."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from scheduler_service.domain.access_keys import AccessKey, Role
from scheduler_service.persistence.keys.key_table import SqlKeyTable, has_keys
from scheduler_service.persistence.sql.sqlite import IN_MEMORY
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
)


@pytest.fixture
async def table(url: str) -> AsyncIterator[SqlKeyTable]:
    async with opened_table(SqlKeyTable, url) as table:
        yield table


async def test_a_key_is_read_back_as_it_was_added(table: SqlKeyTable, url: str) -> None:
    """Every member, in order of creation; a command without a service sees whether there is any."""
    assert await table.keys() == ((0, 0), [])
    assert url == IN_MEMORY or not has_keys(url=url)
    await table.add(FULL)
    await table.add(PLAIN)
    assert (await table.keys())[1] == [PLAIN, FULL]
    assert url == IN_MEMORY or has_keys(url=url)


async def test_every_change_has_another_mark(table: SqlKeyTable) -> None:
    """And of two who change one key the second one is told so."""
    marks = [await table.mark()]
    await table.add(PLAIN)
    marks.append(await table.mark())
    assert await table.replace(replace(PLAIN, revoked_at=5))
    marks.append(await table.mark())
    assert not await table.replace(replace(PLAIN, revoked_at=6))
    assert len(set(marks)) == 3
    found = await table.keys()
    assert found == (marks[-1], [replace(PLAIN, revoked_at=5, version=2)])
    assert await table.mark() == marks[-1]


async def test_the_last_use_of_several_nodes_is_the_latest(table: SqlKeyTable) -> None:
    """It is no change: nobody reads the keys anew for it, and a change of the key leaves it."""
    await table.add(PLAIN)
    mark = await table.mark()
    for at in (5, 9, 7):
        await table.note_uses({PLAIN.key_id: at, "nobody": at})
    assert (await table.mark(), (await table.keys())[1][0].last_used_at) == (mark, 9)
    assert await table.replace(replace(PLAIN, name="new"))
    assert (await table.keys())[1] == [replace(PLAIN, name="new", last_used_at=9, version=2)]
