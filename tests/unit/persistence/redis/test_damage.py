"""What `db check` finds among the jobs in Redis."""

import asyncio

import msgspec
import pytest

from scheduler_service.app.redis_damage import MOST_NAMED, find_redis_damage
from scheduler_service.persistence.redis.connection import ServerConnection
from scheduler_service.persistence.redis.damage import find_damaged_jobs
from tests.redis_server import RedisServer
from tests.unit.persistence.redis.opening import open_at
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio
COUNT = 300


async def test_damaged_rows_and_heads_are_named(redis: RedisServer) -> None:
    """Those that are not ours, and a row or a head alone; while a service has the store open."""
    store = await open_at(redis)
    await store.commit_all([commit(job_id=f"job-{number}") for number in range(COUNT)])
    connection = ServerConnection(address=redis.address)
    assert await find_damaged_jobs(connection, is_readable=lambda _: True) == ([], COUNT)
    with redis.client as client:
        client.hset("punctual:jobs", "job-1", b"\xc1")
        client.hset("punctual:heads", "job-2", msgspec.msgpack.encode(["x"] * 8))
        client.hdel("punctual:heads", "job-3")
        client.hdel("punctual:jobs", "job-4")
    damaged, count = await find_damaged_jobs(connection, is_readable=lambda _: True)
    assert (damaged, count) == (["job-1", "job-2", "job-3", "job-4"], COUNT)
    assert len((await find_damaged_jobs(connection, is_readable=lambda _: False))[0]) == COUNT
    await connection.close()
    await store.close()


async def test_it_says_what_to_do(redis: RedisServer) -> None:
    """Some are named, all are counted; these have a state that no engine wrote."""
    store = await open_at(redis)
    assert await asyncio.to_thread(find_redis_damage, redis.url) == ("", 0)
    await store.commit_all([commit(job_id=f"job-{number:02}") for number in range(MOST_NAMED + 3)])
    await store.close()
    text, count = await asyncio.to_thread(find_redis_damage, redis.url)
    assert count == MOST_NAMED + 3
    assert "job-00, job-01" in text
    assert "and 3 more; stop the service, remove each by HDEL punctual:jobs ID" in text
