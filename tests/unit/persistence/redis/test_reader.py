"""Reads of a Redis store."""

import asyncio

import msgspec
import pytest

from scheduler_service.domain.moments import Now
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.ports.errors import StateUnreadable
from scheduler_service.ports.state import StoredJob
from tests.redis_server import RedisServer
from tests.unit.persistence.redis.opening import open_at
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


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
