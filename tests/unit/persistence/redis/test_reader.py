"""Reads of a Redis store."""

import asyncio
import gc

import msgspec
import pytest

from scheduler_service.domain.moments import Now
from scheduler_service.persistence.redis.store import RedisStateStore
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.ports.errors import StateUnreadable, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import StoredJob
from tests.redis_server import RedisServer
from tests.unit.persistence.redis.opening import open_at
from tests.unit.persistence.samples import commit
from tests.unit.persistence.valve import Valve

pytestmark = pytest.mark.anyio
PATIENCE = 10.0


@pytest.mark.parametrize(
    "damaged", [b"\xc1", b"", b"\x90", b"\x01", msgspec.msgpack.encode(["job"] * 40)], ids=repr
)
async def test_a_damaged_row_is_the_trouble_of_its_job_alone(redis: RedisServer, damaged: bytes) -> None:
    """Loads of the same command get their jobs, lists show the others, and it names what to do."""
    store = await open_at(redis)
    await store.commit(commit())
    await store.commit(commit(job_id="other"))
    with redis.client as client:
        client.hset("punctual:jobs", "job", damaged)
    loads = await asyncio.gather(store.load("job"), store.load("other"), return_exceptions=True)
    assert isinstance(loads[0], StateUnreadable)
    assert "HDEL punctual:jobs job" in str(loads[0])
    assert isinstance(loads[1], StoredJob)
    assert [entry.job_id for entry in (await store.catalogue.list(JobQuery())).items] == ["other"]
    assert set(await store.catalogue.some(["job", "other"])) == {"other"}
    with pytest.raises(StateUnreadable, match="create the job again"):
        await store.catalogue.get("job")
    await store.close()


HEAD = ["uid", "1", False, "default", "0", "0", "", ""]


@pytest.mark.parametrize(
    "damaged",
    [
        b"\xc1",
        b"",
        b"\x01",
        msgspec.msgpack.encode(HEAD[:-1]),
        msgspec.msgpack.encode([*HEAD[:-1], "\0\0\0\x09x"]),
        msgspec.msgpack.encode([*HEAD[:4], "x", *HEAD[5:]]),
    ],
    ids=repr,
)
async def test_a_damaged_head_is_the_trouble_of_its_job_alone(redis: RedisServer, damaged: bytes) -> None:
    """Turns of others that are written with one of this job are written, and it names what to do."""
    store = await open_at(redis)
    await store.commit(commit())
    with redis.client as client:
        client.hset("punctual:heads", "job", damaged)
    others = [commit(job_id="before"), commit(sequence=2, expected=1), commit(job_id="behind")]
    before, own, behind = await asyncio.gather(*map(store.commit, others), return_exceptions=True)
    assert (before, behind) == (None, None)
    assert isinstance(own, StateUnreadable)
    assert "HDEL punctual:heads job" in str(own)
    assert isinstance((await store.commit_all([others[1]]))[0], StateUnreadable)
    entries = (await store.catalogue.list(JobQuery())).items
    assert [entry.job_id for entry in entries] == ["before", "behind", "job"]
    await store.close()


async def test_a_job_whose_row_was_removed_is_created_again(redis: RedisServer) -> None:
    """As the message says; what is left of the row in indexes hides and doubles nothing."""
    store = await open_at(redis)
    await store.commit(commit())
    with redis.client as client:
        client.hdel("punctual:jobs", "job")
        client.hdel("punctual:heads", "job")
    await store.close()
    store = await open_at(redis)
    assert await store.load("job") is None
    await store.commit(commit(uid="second"))
    (entry,) = (await store.catalogue.list(JobQuery())).items
    assert entry.uid == "second"
    counts = await store.catalogue.counts(Now(0, 0))
    await store.close()
    assert sum(counts.by_state.values()) == 1


async def test_reads_of_a_frozen_server_fail_together(redis: RedisServer) -> None:
    """Each over the same connection: none waits for what others have waited already."""
    store = await open_at(redis, timeout=1.0)
    await store.commit(commit(definition=b"{}"))
    redis.freeze()
    try:
        reads = [store.definition("uid-job", 1) for _ in range(20)]
        async with asyncio.timeout(PATIENCE):
            found = await asyncio.gather(*reads, store.load("job"), return_exceptions=True)
    finally:
        redis.wake()
    assert {type(one) for one in found} == {StoreUnavailable}
    assert await store.definition("uid-job", 1) is not None
    await store.close()


async def test_reads_that_waited_behind_a_dead_connection_are_made_over_another(redis: RedisServer) -> None:
    """The server is there, and only the connection says nothing any more."""
    valve = Valve(redis.port)
    store = await RedisStateStore.open(address=await valve.open(), durability="process", timeout=1.0)
    await store.commit(commit(definition=b"{}"))
    assert await store.load("job") is not None
    valve.hold_answers()
    found = await asyncio.gather(*(store.definition("uid-job", 1) for _ in range(5)))
    assert None not in found
    await store.close()
    await valve.close()


async def test_a_read_that_fails_after_its_caller_has_gone_is_no_fault(server: RedisServer) -> None:
    """The loop is told of no error that nobody retrieved: also where the outcome of a write is asked for."""
    store = await open_at(server)
    await store.commit(commit(definition=b"{}"))
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    server.kill()
    with pytest.raises(StoreUncertain):
        await store.commit(commit(expected=1))
    reads = [asyncio.ensure_future(read) for read in (store.definition("uid-job", 1), store.load("job"))]
    await asyncio.sleep(0)
    for read in reads:
        read.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
    await store.close()
    gc.collect()
    await asyncio.sleep(0)
    assert told == []
