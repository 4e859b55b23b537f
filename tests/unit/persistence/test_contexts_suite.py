"""What every store of contexts promises: versions are kept as they were put, in whatever order."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler_service.persistence.contexts.external_contexts import ListedContexts
from scheduler_service.persistence.contexts.redis import RedisContexts
from tests.redis_server import RedisServer
from tests.unit.persistence.memory_contexts import MemoryContexts

pytestmark = pytest.mark.anyio
LAST = 2**96 - 1


@pytest.fixture(params=["memory", "redis"])
async def contexts(request: pytest.FixtureRequest) -> AsyncIterator[ListedContexts]:
    opened: ListedContexts = MemoryContexts()
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis")
        opened = RedisContexts(address=server.address, on_trouble=lambda _: None)
    yield opened
    await opened.close()


async def test_what_was_put_is_there_under_its_version(contexts: ListedContexts) -> None:
    """Any bytes, any number below 2 ** 96, any id of a job; another job's versions are its own."""
    content = bytes(range(256)) * 5_000
    await contexts.put("job", LAST, content, ())
    await contexts.put("job", 0, b"", ())
    await contexts.put("tenant|täglich", 0, b"other", ())
    assert await contexts.get("job", LAST) == content
    assert await contexts.get("job", 0) == b""
    assert await contexts.get("tenant|täglich", 0) == b"other"
    assert await contexts.get("job", 1) is None
    assert await contexts.get("nothing", 0) is None


async def test_what_is_unused_goes_with_a_put_or_by_itself(contexts: ListedContexts) -> None:
    """And nothing else; what is not there is no error."""
    for version in range(4):
        await contexts.put("job", version, b"%d" % version, ())
    await contexts.put("job", 4, b"4", (0, 1, 77))
    await contexts.drop("job", (2, 78))
    await contexts.drop("nothing", (1,))
    found = [await contexts.get("job", version) for version in range(5)]
    assert found == [None, None, None, b"3", b"4"]
    assert sorted(await contexts.find("job")) == [3, 4]
    assert list(await contexts.find("nothing")) == []


async def test_all_versions_are_listed(contexts: ListedContexts) -> None:
    """Of each job that has any, some perhaps twice."""
    await asyncio.gather(*(contexts.put(f"job-{number}", number, b"x", ()) for number in range(1_200)))
    await contexts.drop("job-7", (7,))
    found = {job_id: versions async for page in contexts.pages() for job_id, versions in page}
    assert found == {f"job-{number}": [number] for number in range(1_200) if number != 7}


async def test_many_calls_at_one_moment_have_their_own_answers(contexts: ListedContexts) -> None:
    """Large ones and small ones."""
    sizes = [3 << 20, 1, 3 << 20, *range(300)]
    await asyncio.gather(*(contexts.put("job", number, b"x" * size, ()) for number, size in enumerate(sizes)))
    found = await asyncio.gather(*(contexts.get("job", number) for number in range(len(sizes))))
    assert [len(one or b"") for one in found] == sizes
