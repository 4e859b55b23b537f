"""Whatever is written, the Redis store answers as the SQLite store does, and holds the same afterwards."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler_service.domain.effects import PublishParts, WithdrawParts
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.parts import PartName, QueuedPart, QueueOptions
from scheduler_service.persistence.redis.store import RedisStateStore
from scheduler_service.persistence.sqlite.commit_group import Write
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.catalogue import JobQuery, JobSort
from scheduler_service.ports.state import OpenStore, Remembered, Settlement
from tests.redis_server import RedisServer
from tests.unit.persistence.generated_writes import befores, groups
from tests.unit.persistence.queue_bench import REQUEST
from tests.unit.persistence.samples import batch, commit, delivery

SAME = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


async def read_all(store: OpenStore) -> list[Any]:
    """Everything that the port shows."""
    found: list[Any] = [await store.load(job_id) for job_id in "ab"]
    found += [await store.definition(uid, revision) for uid in "uvwx" for revision in (1, 2)]
    found += [await store.recall("s", key, 0) for key in "kl"]
    found += [await store.due_wall(100, 10), await store.due_steady(100, 10)]
    found += [await store.open_jobs("", 10, (b"doc",))]
    found += [await store.deliveries("", 10), await store.unwritten(("", 0), 10), await store.clock_skew()]
    for sort in JobSort:
        query = JobQuery(states=(), sort=sort, descending=sort is JobSort.JOB_NAME)
        found.append(await store.catalogue.list(query))
    found.append(await store.catalogue.counts(Now(wall=9_000, steady=0), tenant=None))
    return found


async def put(store: Any, writes: Sequence[Write]) -> list[object]:
    """Writes one group; a refusal is returned by its message."""
    verdicts = await store.writer.put_all(writes)
    return [str(verdict) if isinstance(verdict, Exception) else verdict for verdict in verdicts]


async def compare(server: RedisServer, before: Sequence[Write], together: Sequence[Write]) -> None:
    """Both stores, from nothing."""
    with server.client as client:
        client.flushall()
    sqlite = await SqliteStateStore.open(folder=None)
    redis = await RedisStateStore.open(address=server.address, durability="process")
    try:
        for write in before:
            assert await put(redis, [write]) == await put(sqlite, [write])
        assert await put(redis, together) == await put(sqlite, together)
        assert await read_all(redis) == await read_all(sqlite)
    finally:
        await redis.close()
        await sqlite.close()


@SAME
@given(before=befores, together=groups)
def test_redis_is_what_sqlite_is(redis: RedisServer, before: list[Write], together: list[Write]) -> None:
    """Verdicts, words and every read are the same."""
    asyncio.run(compare(redis, before, together))


@pytest.mark.long
@settings(SAME, max_examples=2_000)
@given(before=befores, together=groups)
def test_redis_is_always_what_sqlite_is(
    redis: RedisServer, before: list[Write], together: list[Write]
) -> None:
    """The same, over so many groups that rare meetings are among them."""
    asyncio.run(compare(redis, before, together))


async def live_and_die(server: RedisServer) -> set[bytes]:
    """The keys that are left of a job that had everything."""
    store = await RedisStateStore.open(address=server.address, durability="process")
    kept = Remembered("s", "k", b"", b"{}", created_at=1_000, job_id="job")
    name = PartName("uid-job", 1, 1, 0, 0)
    part = QueuedPart(name, "q", 1, REQUEST, QueueOptions(), 0, 1, "job", "default")
    full = commit(
        definition=b"{}", batch=batch(), deliveries=(delivery(1),), remembered=kept, live=1, waiting=1,
        due=Due(wall=1, steady=1), parent_job="p", queued=(PublishParts((part,)),),
    )  # fmt: skip
    await store.commit(full)
    gone = (WithdrawParts("uid-job", 1),)
    await store.commit(commit(expected=1, document=None, state=JobState.DESTROYED, queued=gone))
    await store.settle([Settlement(delivery(1), done=True)])
    await store.written([("u", 1)])
    assert await store.forget("job") is True
    await store.close()
    with server.client as client:
        return set(client.keys("*"))


def test_nothing_is_left_of_what_is_gone(redis: RedisServer) -> None:
    """A job that is destroyed and forgotten leaves no key behind but the store's own."""
    assert asyncio.run(live_and_die(redis)) == {b"punctual:meta", b"punctual:tenants", b"punctual:sums"}
