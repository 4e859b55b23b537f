"""A Redis database that 0.1.0 wrote (its commit 8eb9e4e) opens and goes on.

`of_0_1_0/redis.json` has its keys, with names and values of collections in base64.
"""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.ports.catalogue import JobQuery
from tests.redis_server import RedisServer
from tests.unit.persistence.redis.opening import open_at
from tests.unit.persistence.samples import RECORDS_OF_0_1_0, commit

pytestmark = pytest.mark.anyio
DUMP = Path(__file__).parent.parent / "of_0_1_0" / "redis.json"


def restore(client: Redis) -> None:
    """Writes the keys of the dump."""
    for key, kept in json.loads(DUMP.read_text(encoding="utf-8")).items():
        value: Any = kept["value"]
        match kept["type"]:
            case "hash":
                client.hset(key, mapping={b64decode(name): b64decode(one) for name, one in value.items()})
            case "zset":
                client.zadd(key, {b64decode(name): score for name, score in value})
            case "set":
                client.sadd(key, *map(b64decode, value))
            case other:
                raise AssertionError(other)


async def test_a_redis_of_0_1_0_goes_on(server: RedisServer) -> None:
    """Jobs, alarms, deliveries, answers, records: all are read, and the next turn is written."""
    restore(server.client)
    store = await open_at(server)
    try:
        assert store.node_id == "old"
        assert await store.clock_skew() == 123
        page = await store.catalogue.list(JobQuery(states=(JobState.ACTIVE, JobState.PAUSED)))
        assert [one.job_id for one in page.items] == ["living", "paused"]
        stored = await store.load("living")
        assert stored is not None
        assert (stored.sequence, stored.document, stored.due) == (1, b"doc", Due(wall=5000))
        assert await store.definition("u", 1) == b'{"jobId":"living"}'
        assert [one.delivery_id for one in await store.deliveries("", 9)] == ["d1"]
        assert [one.records for one in await store.unwritten(("", 0), 9)] == [RECORDS_OF_0_1_0]
        kept = await store.recall("jobs/living/trigger", "key", 0)
        assert kept is not None
        assert kept.answer == b"answer"
        gone = await store.load("gone")
        assert gone is not None
        assert (gone.document, gone.entry.execute_number) == (None, 7)
        assert await store.due_steady(9_000, 9) == [(9_000, "paused")]
        await store.commit(commit("living", uid="u", expected=1, document=b"next"))
        after = await store.load("living")
        assert after is not None
        assert (after.sequence, after.document) == (2, b"next")
    finally:
        await store.close()
