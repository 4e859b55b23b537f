"""Groups under a fence: late, lost, given up, and what became of them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler_service.domain.execution import JobState
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.redis.store import RedisStateStore
from scheduler_service.persistence.redis.writer import MAX_GROUP_BYTES
from scheduler_service.ports.errors import StoreConflict, StoreUnavailable, StoreUncertain
from tests.redis_server import RedisServer
from tests.unit.persistence.crashing import Breaking
from tests.unit.persistence.redis.opening import Ear, open_at, until
from tests.unit.persistence.samples import batch, commit, delivery
from tests.unit.persistence.valve import Valve

pytestmark = pytest.mark.anyio
SOON = 1.0
PATIENCE = 10.0


@pytest.fixture
async def valve(redis: RedisServer) -> AsyncIterator[Valve]:
    """A way to the server that the test may close."""
    valve = Valve(redis.port)
    yield valve
    await valve.close()


async def test_a_restart_that_nobody_noticed_costs_no_write(server: RedisServer) -> None:
    """The connection is dead, the server there: the group is sent once more, for it never was there."""
    store = await open_at(server)
    await store.commit(commit())
    server.kill()
    server.start()
    await store.commit(commit(expected=1))
    assert await store.load("job") is not None
    await store.close()


async def test_a_group_that_comes_late_is_refused(redis: RedisServer, valve: Valve) -> None:
    """Given up, found not written, sent again: when the first copy comes at last the fence keeps it out."""
    store = await RedisStateStore.open(address=await valve.open(), durability="process", timeout=SOON)
    await store.commit(commit())
    valve.hold_requests()
    await store.commit(commit(expected=1, batch=batch(2), deliveries=(delivery(1),)))
    await store.commit(commit(expected=2, document=None, state=JobState.DESTROYED))
    await store.written([("u", 2)])
    assert await store.forget("job") is True
    valve.release()
    assert await store.load("job") is None  # over the first of the connections that waited
    assert await store.unwritten(("", 0), 10) == []
    with redis.client as client:
        await until(lambda: any(b"late\r\n" in answer for answer in valve.answers()))
        assert client.hget("punctual:meta", "writes") == b"5"
    await store.close()


async def test_a_group_whose_answer_was_lost_is_answered(redis: RedisServer, valve: Valve) -> None:
    """It was written: each write gets its result, and nothing is written twice."""
    store = await RedisStateStore.open(address=await valve.open(), durability="process", timeout=SOON)
    await store.commit(commit("taken"))
    valve.hold_answers()
    writes = [store.commit(commit("new")), store.commit(commit("taken")), store.forget("nobody")]
    found = await asyncio.gather(*writes, return_exceptions=True)
    assert (found[0], type(found[1]), found[2]) == (None, StoreConflict, False)
    with redis.client as client:
        assert client.hget("punctual:meta", "writes") == b"2"
    await store.close()


async def test_a_frozen_server_leaves_doubt_that_is_cleared(redis: RedisServer) -> None:
    """Nobody knows while it is frozen; the load after it finds the one truth, and it stays the truth."""
    store = await open_at(redis, timeout=SOON)
    await store.commit(commit())
    redis.freeze()
    try:
        with pytest.raises(StoreUncertain, match="unknown"):
            await store.commit(commit(expected=1))
        with pytest.raises(StoreUnavailable):
            await store.load("job")
    finally:
        redis.wake()
    stored = await store.load("job")
    assert stored is not None
    assert stored.sequence in (1, 2)
    await store.commit(commit(expected=stored.sequence, document=b"next"))
    last = await store.load("job")
    assert last is not None
    assert (last.sequence, last.document) == (stored.sequence + 1, b"next")
    await store.close()


async def test_who_waits_for_a_frozen_server_does_not_wait_for_others(redis: RedisServer) -> None:
    """What was sent is unknown; what waited is answered with it, and is not sent when the server is back."""
    store = await open_at(redis, timeout=SOON, size=1)
    await store.commit(commit())
    others = [f"job-{number}" for number in range(40)]
    redis.freeze()
    try:
        first = asyncio.ensure_future(store.commit(commit(expected=1)))
        await asyncio.sleep(0)
        writes = [store.commit(commit(job_id)) for job_id in others]
        async with asyncio.timeout(PATIENCE):
            found = await asyncio.gather(first, *writes, return_exceptions=True)
            again = await asyncio.gather(*map(store.commit, map(commit, others)), return_exceptions=True)
    finally:
        redis.wake()
    assert {type(one) for one in (*found[1:], *again)} == {StoreUnavailable}
    assert isinstance(found[0], StoreUncertain)
    assert await asyncio.gather(*map(store.load, others)) == [None] * len(others)
    await store.commit(commit(others[0]))
    await store.close()


async def test_of_a_large_array_what_was_not_sent_is_not_unknown(redis: RedisServer) -> None:
    """It is several groups: the server does not answer the first one, and no other follows it."""
    store = await open_at(redis, timeout=SOON)
    await store.commit(commit())
    large = [commit(f"job-{number}", document=b"x" * MAX_GROUP_BYTES) for number in range(16)]
    redis.freeze()
    try:
        async with asyncio.timeout(PATIENCE):
            found = await store.commit_all(large)
    finally:
        redis.wake()
    assert [type(one) for one in found] == [StoreUncertain, *[StoreUnavailable] * 15]
    loaded = await asyncio.gather(*(store.load(f"job-{number}") for number in range(1, 16)))
    assert loaded == [None] * 15
    await store.close()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", [FaultPoint.BEGIN, FaultPoint.WRITE, FaultPoint.COMMIT])
async def test_a_failure_says_whether_anything_was_written(
    redis: RedisServer, point: FaultPoint, when: str
) -> None:
    """Before the commit has ended nothing was written; after it, the answer is: unknown."""
    store = await open_at(redis, faults=Breaking(f"{when} {point}"))
    is_written = (point, when) == (FaultPoint.COMMIT, "after")
    with pytest.raises(StoreUncertain if is_written else StoreUnavailable):
        await store.commit(commit(batch=batch(), deliveries=(delivery(1),)))
    assert (await store.load("job") is not None) is is_written
    await store.commit(commit("next"))
    await store.close()


SURPLUS = [
    b"+OK\r\n",
    b"$-1\r\n",
    b":1\r\n",
    b"-ERR nobody asked\r\n",
    b"-LOADING nobody asked\r\n",
    b"-NOSCRIPT nobody asked\r\n",
    b"*1\r\n$4\r\nlate\r\n",
    b"*2\r\n$4\r\ndone\r\n$4\r\n\0\0\0\0\r\n",
    b"*4\r\n$8\r\nattached\r\n$1\r\n1\r\n$1\r\n9\r\n$0\r\n\r\n",
    b"$7\r\nhalf",
]


@pytest.mark.parametrize("surplus", SURPLUS)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_an_answer_that_nobody_asked_for_ends_the_connection(
    valve: Valve, surplus: bytes, when: str
) -> None:
    """It is nobody's: what was asked is asked again elsewhere, and nothing stays unknown."""
    ear = Ear()
    address = await valve.open()
    store = await RedisStateStore.open(
        address=address, durability="process", timeout=20 * SOON, hooks=ear.hooks
    )
    await store.commit(commit())
    assert await store.load("job") is not None
    if when == "meanwhile":
        valve.hold_answers()
    writes = asyncio.gather(
        store.commit(commit(expected=1, document=b"new")),
        store.commit(commit("other")),
        return_exceptions=True,
    )
    if when == "meanwhile":
        await until(lambda: any(answer.startswith(b"*2\r\n$4\r\ndone") for answer in valve.answers()))
    valve.add(surplus)
    valve.release()
    assert await writes == [None, None]
    for job_id, sequence, document in (("job", 2, b"new"), ("other", 1, b"doc")):
        stored = await store.load(job_id)
        assert stored is not None
        assert (stored.sequence, stored.document) == (sequence, document)
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=1))
    await store.commit(commit(expected=2))
    assert ear.unasked or surplus.endswith(b"half")
    assert ear.lost == []
    await store.close()


async def test_a_server_that_says_too_much_again_and_again_is_understood(valve: Valve) -> None:
    """Before each command, to whichever connection it goes."""
    ear = Ear()
    store = await RedisStateStore.open(address=await valve.open(), durability="process", hooks=ear.hooks)
    await store.commit(commit())
    for sequence in range(1, 6):
        valve.add(b"+OK\r\n")
        await store.commit(commit(expected=sequence, document=b"%d" % sequence))
        valve.add(b"-ERR no\r\n")
        stored = await store.load("job")
        assert stored is not None
        assert (stored.sequence, stored.document) == (sequence + 1, b"%d" % sequence)
        valve.add(b"$1\r\n1\r\n")
        with pytest.raises(StoreConflict):
            await store.commit(commit(expected=sequence))
    assert len(ear.unasked) >= 5
    await store.close()
