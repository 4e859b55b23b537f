"""What the Redis store promises beyond the port: its lease, its fence, and what it asks of the server."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.contexts.address import read_address
from scheduler_service.persistence.redis.errors import LeaseLost
from scheduler_service.persistence.redis.reader import MARKED_AT_ONCE, PAGE_BYTES
from scheduler_service.persistence.redis.store import RedisStateStore
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.ports.errors import StoreTooNew, StoreUnavailable
from tests.redis_server import RedisServer
from tests.unit.persistence import damaged_deliveries
from tests.unit.persistence.redis.opening import Ear, key, open_at
from tests.unit.persistence.samples import commit, delivery

pytestmark = pytest.mark.anyio


async def test_an_emptied_server_is_no_store_any_more(redis: RedisServer) -> None:
    """What memory knows of the jobs must not be written into nothing."""
    ear = Ear()
    store = await open_at(redis, hooks=ear.hooks)
    await store.commit(commit())
    with redis.client as client:
        client.flushall()
    with pytest.raises(LeaseLost, match="emptied"):
        await store.commit(commit(expected=1))
    assert len(ear.lost) == 1
    await store.close()
    with redis.client as client:
        assert client.dbsize() == 0


async def test_a_damaged_delivery_holds_up_none_behind_it(redis: RedisServer) -> None:
    """It stops one notification."""
    store = await open_at(redis)
    await store.commit(commit(deliveries=tuple(map(delivery, damaged_deliveries.ALL))))
    with redis.client as client:
        for name in damaged_deliveries.DAMAGED:
            assert client.hset(key("deliveries"), name, damaged_deliveries.TORN) == 0
    await damaged_deliveries.check(store.deliveries)
    await store.close()


@pytest.mark.parametrize("name", ["d2", "d5"])
async def test_a_delivery_with_the_id_of_another_one_ends_no_reading(redis: RedisServer, name: str) -> None:
    """It is left out; reading goes on behind its row, and not behind the other one."""
    store = await open_at(redis)
    await store.commit(commit(deliveries=tuple(map(delivery, damaged_deliveries.ALL))))
    with redis.client as client:
        other = client.hget(key("deliveries"), "d1")
        assert client.hset(key("deliveries"), name, other) == 0
    for size in (1, 2, 500):
        found, damaged = await damaged_deliveries.read_all(store.deliveries, size)
        assert (damaged, sorted([*found, name])) == ([name], ["d1", "d2", "d3", "d4", "d5"])
    await store.close()


async def test_lists_go_on_behind_jobs_with_large_states(redis: RedisServer) -> None:
    """A page of rows ends early where they are large; the list asks for the next one."""
    store = await open_at(redis)
    for number in range(5):
        await store.commit(commit(f"large{number}", document=b"x" * (PAGE_BYTES // 2)))
    listed = await store.catalogue.list(JobQuery(limit=9))
    assert [one.job_id for one in listed.items] == [f"large{number}" for number in range(5)]
    await store.close()


async def test_large_states_are_loaded_some_at_a_time(redis: RedisServer) -> None:
    """Those that are asked for together come in answers of 4 MiB, or of one row; each is the right one."""
    store = await open_at(redis)
    sizes = {f"job-{number}": PAGE_BYTES // 3 if number % 2 else number for number in range(12)}
    sizes["alone"] = 2 * PAGE_BYTES
    for job_id, size in sizes.items():
        await store.commit(commit(job_id, document=b"x" * size))
    with redis.client as client:
        client.config_resetstat()
        loaded = await asyncio.gather(*map(store.load, [*sizes, "none"]))
        calls = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert [one and len(one.document or b"") for one in loaded] == [*sizes.values(), None]
    assert 5 <= calls <= 8  # its lease is renewed meanwhile, perhaps
    await store.close()


async def test_a_job_that_is_asked_for_again_meanwhile_is_loaded_for_both(redis: RedisServer) -> None:
    """While others that are large are read before it."""
    store = await open_at(redis)
    job_ids = [f"job-{number}" for number in range(6)]
    for job_id in job_ids:
        await store.commit(commit(job_id, document=b"x" * PAGE_BYTES))
    first = [asyncio.ensure_future(store.load(job_id)) for job_id in job_ids]
    for _ in range(5):  # the first answer is under way
        await asyncio.sleep(0)
    second = [asyncio.ensure_future(store.load(job_id)) for job_id in job_ids]
    async with asyncio.timeout(30):
        loaded = await asyncio.gather(*first, *second)
    assert [one.entry.job_id for one in loaded if one] == 2 * job_ids
    await store.close()


async def test_a_page_with_any_row_is_not_empty(redis: RedisServer) -> None:
    """An empty one is taken for the last: rows that are gone do not end it."""
    store = await open_at(redis)
    whole = OutboundRequest("POST", "http://t/x", (), b"x" * (PAGE_BYTES + 1))
    told = (delivery(0), replace(delivery(1), request=whole))
    await store.commit(commit("job", deliveries=told))
    with redis.client as client:
        client.hdel(key("deliveries"), delivery(0).delivery_id)
    assert [one.ordinal for one in await store.deliveries("", 10)] == [1]
    await store.close()


async def test_open_jobs_are_searched_where_they_are(redis: RedisServer) -> None:
    """However many there are, and whatever bytes the marks have; a row that is gone is no job."""
    store = await open_at(redis)
    names = [f"job{number:03}" for number in range(2 * MARKED_AT_ONCE + 3)]
    for number, name in enumerate(names):
        document = b"begin %d \x00%%.mark \xff end" % number if number % 3 == 0 else b"begin"
        await store.commit(commit(name, document=document, live=1))
    found = await store.open_jobs("", 500, [b"none", b"\x00%.mark \xff"])
    assert [(one.job_id, one.is_marked) for one in found] == [
        (name, number % 3 == 0) for number, name in enumerate(names)
    ]
    assert min(one.size for one in found) > 5
    assert [one.job_id for one in await store.open_jobs(names[-2], 500, [b"mark"])] == [names[-1]]
    assert await store.open_jobs(names[-1], 500, [b"mark"]) == []
    await store.close()


async def test_starts_are_counted_and_the_name_is_kept(redis: RedisServer) -> None:
    """`boot` grows with each opening; the node keeps its name unless it is given another one."""
    names = []
    for boot in (1, 2, 3):
        store = await open_at(redis, node_id="given" if boot == 3 else "")
        assert store.boot == boot
        names.append(store.node_id)
        await store.close()
    assert names[0] == names[1] != names[2] == "given"
    store = await open_at(redis)
    assert (store.boot, store.node_id) == (4, "given")
    await store.close()


async def test_a_newer_format_is_refused(redis: RedisServer) -> None:
    """A store of a newer program is left alone."""
    with redis.client as client:
        client.hset(key("meta"), "format", 9)
    with pytest.raises(StoreTooNew, match="format 9"):
        await open_at(redis)
    with redis.client as client:
        assert client.hgetall(key("meta")) == {b"format": b"9"}


async def test_databases_of_one_server_are_stores_of_their_own(redis: RedisServer) -> None:
    """Two services may share a server, never a database."""
    first = await open_at(redis)
    other = msgspec.structs.replace(redis.address, database=1)
    second = await RedisStateStore.open(address=other, durability="process")
    await first.commit(commit())
    assert await second.load("job") is None
    await first.close()
    await second.close()


async def test_a_group_may_be_of_any_size(redis: RedisServer) -> None:
    """Large definitions and many writes are cut into groups that do not hold the server up."""
    store = await open_at(redis, size=7)
    text = b"x" * 900_000
    verdicts = await store.commit_all([commit(f"job-{n}", definition=text) for n in range(30)])
    assert verdicts == [None] * 30
    assert await store.definition("uid-job-29", 1) == text
    assert len(await store.due_wall(10, 10)) == 0
    await store.close()


async def test_a_waiter_that_gives_up_leaves_its_write(redis: RedisServer) -> None:
    """Cancelling one waiter for a commit, or for a load, does not affect the others."""
    store = await open_at(redis)
    first, second = store.commit(commit("a")), store.commit(commit("b"))
    asyncio.ensure_future(first).cancel()
    loads = [asyncio.ensure_future(store.load("a")) for _ in range(2)]
    await asyncio.sleep(0)
    loads[0].cancel()
    await second
    await loads[1]
    assert await store.load("a") is not None
    await store.close()


async def test_the_password_is_used_and_never_told(tmp_path: Path) -> None:
    """A wrong one is refused without being shown."""
    server = RedisServer(tmp_path).start("--appendonly", "yes")
    try:
        with server.client as client:
            client.config_set("requirepass", "right/word")
        place = f"127.0.0.1:{server.port}/0"
        with pytest.raises(StoreUnavailable) as refused:
            await RedisStateStore.open(address=read_address(f"redis://:secret@{place}"), durability="process")
        assert "secret" not in str(refused.value)
        with pytest.raises(StoreUnavailable, match="Authentication required"):
            await RedisStateStore.open(address=read_address(f"redis://{place}"), durability="process")
        right = read_address(f"redis://default:right%2Fword@{place}")
        await (await RedisStateStore.open(address=right, durability="process")).close()
    finally:
        server.kill()
