"""Reads of a Redis store."""

import pytest

from scheduler_service.ports.errors import StoreUnavailable
from tests.redis_server import RedisServer
from tests.unit.persistence.redis.opening import open_at
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


async def test_a_damaged_row_is_told(redis: RedisServer) -> None:
    """Its load fails, and so do the others of the same command: they may be tried again."""
    store = await open_at(redis)
    await store.commit(commit())
    with redis.client as client:
        client.hset("punctual:jobs", "job", b"\xc1")
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        await store.load("job")
    await store.close()
