"""Queues in Redis that an earlier version has written (SPEC section 13)."""

import pytest

from scheduler_service.domain.effects import PublishParts, ReconfigureParts
from scheduler_service.domain.leases import QueueFigures, QueueQuery
from scheduler_service.domain.parts import LeaseChange, PartName, QueuedPart, QueueOptions, write_part_id
from tests.redis_server import RedisServer
from tests.unit.persistence.queue_bench import DONE, REQUEST, Bench
from tests.unit.persistence.redis.opening import open_at

pytestmark = pytest.mark.anyio
NEW_FIELDS = ("patience", "published", "expires", "serial", "changes", "claimed")
NEW_KEYS = ("parts:aged:*", "parts:leased:*", "parts:queues", "parts:changed", "parts:expires")


def age(server: RedisServer) -> None:
    """Leaves what 0.1.0 kept of the parts."""
    client, prefix = server.client, "punctual:"
    for key in client.keys(f"{prefix}part:*"):
        client.hdel(key, *NEW_FIELDS)
    for pattern in NEW_KEYS:
        for key in client.keys(prefix + pattern):
            client.delete(key)
    client.hdel(f"{prefix}meta", "queues_listed")


async def publish(bench: Bench) -> PartName:
    """One part with a queue timeout of 500 ms."""
    bench.executions += 1
    name = PartName("uid", bench.executions, 1, 0, 0)
    options = QueueOptions(queue_timeout=500)
    part = QueuedPart(name, "work", 1, REQUEST, options, 0, bench.executions, "job", "default", 0)
    await bench.write(PublishParts((part,)))
    return name


async def test_parts_of_0_1_0_go_on(server: RedisServer) -> None:
    """They are listed after the start, claimed, lost, reconfigured and completed as before."""
    store = await open_at(server)
    try:
        bench = Bench(store)
        for _ in range(2):
            await bench.publish(lease=1_000, delay=0)
        (leased,) = await bench.claim("a")
        age(server)
        await bench.queues.extend(0)
        everything = QueueQuery("default")
        assert await bench.queues.figures(everything) == [QueueFigures("work", 1, 2, 1)]
        assert [one.instance for one in await bench.queues.held(QueueQuery("default", "work"))] == ["a"]
        await bench.write(ReconfigureParts(leased.part.name, QueueOptions(lease=1_000, delay=0)))
        (freed,) = (await bench.queues.sweep(1_000)).freed
        assert freed.changes == (LeaseChange(1, "a", 1_000, is_lost=True),)
        first, second = await bench.claim("b", most=2, now=1_000)
        assert (first.changes[-1].serial, second.changes[-1].serial) == (2, 1)
        for one in (first, second):
            assert await bench.queues.complete(one.lease, DONE, 1_001)
        assert await bench.queues.figures(everything) == []
    finally:
        await store.close()


async def test_parts_that_an_older_program_removed_leave_the_indexes(server: RedisServer) -> None:
    """A program of format 1 that completes a part leaves it in the indexes that it does not know."""
    store = await open_at(server)
    try:
        bench = Bench(store)
        names = [await publish(bench) for _ in range(3)]
        server.client.delete(*(f"punctual:part:{write_part_id(name)}" for name in names[:2]))
        await bench.queues.extend(0)
        assert [one.name for one in (await bench.queues.sweep(1_000)).ended] == [names[2]]
        assert (await bench.queues.sweep(10**9)).next_look is None
    finally:
        await store.close()


async def test_indexes_are_made_anew_after_a_program_of_format_1(server: RedisServer) -> None:
    """What it completed is gone, what it claimed has no queue timeout, all else is listed."""
    store = await open_at(server)
    bench = Bench(store)
    gone, claimed, waits = [await publish(bench) for _ in range(3)]
    await bench.claim("a", most=2)
    await bench.queues.drop(write_part_id(gone))
    client = server.client
    part = f"punctual:part:{write_part_id(claimed)}"
    client.hset(part, "expires", f"{500:016}")
    for name in (gone, claimed, waits):
        client.zadd("punctual:parts:expires", {f"{500:016}{write_part_id(name)}": 0})
    gone_id = write_part_id(gone)
    client.zrem("punctual:parts:until", f"{client.hget(part, 'ends').decode()}{gone_id}")  # type: ignore[union-attr]
    client.delete(f"punctual:part:{gone_id}", "punctual:parts:queues")
    await store.close()
    client.hset("punctual:meta", "format", 1)
    store = await open_at(server)
    try:
        bench = Bench(store)
        await bench.queues.extend(0)
        assert client.hget("punctual:meta", "format") == b"2"
        assert await bench.queues.figures(QueueQuery("default")) == [QueueFigures("work", 1, 3, 1)]
        assert [one.name for one in (await bench.queues.sweep(1_000)).ended] == [waits]
        assert [one.name for one in await bench.queues.held(QueueQuery("default", "work"))] == [claimed]
    finally:
        await store.close()
