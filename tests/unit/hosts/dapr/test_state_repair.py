"""A state that is lost or too old is put right."""

import base64

import msgspec
import pytest

from scheduler_service.domain.events import Created
from scheduler_service.domain.replies import Started
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio


async def test_a_lost_state_is_restored_from_the_catalogue(cluster: DaprHouse) -> None:
    """What the catalogue has as living lives again, its counters go on."""
    await cluster.create(timer={"dueTime": "5s", "period": "5s"}, qos=1)
    await cluster.trigger()
    await cluster.settle()
    await cluster.crash()
    cluster.world.state.clear()
    await cluster.advance(20_000)
    job = await cluster.host.read("job")
    assert job is not None
    assert job.document is not None
    assert job.document.head.uid == "uid1"
    assert job.document.head.execute_number > 1


async def test_a_restored_job_belongs_to_the_service_that_declares_it() -> None:
    """What only the lost state knew is asked of the table of declared jobs (SPEC sections 9 and 11)."""
    asked: list[tuple[str, str]] = []

    async def owner_of(job_id: str, uid: str) -> str:
        asked.append((job_id, uid))
        return "billing"

    cluster = await DaprHouse(owner_of=owner_of).start()
    try:
        declared = describe(jobId="job", request=[{"url": "service:/run"}])
        cluster.node.shared.is_synced = False  # so that the state lies in the actor store
        await cluster.host("job", Command(Created("", b"", owner="billing"), declared))
        await cluster.crash()
        cluster.world.state.clear()
        await cluster.advance(20_000)
        job = await cluster.host.read("job")
        assert job is not None
        assert job.document is not None
        assert job.document.head.owner == "billing"
        assert set(asked) == {("job", "uid1")}
    finally:
        await cluster.close()


async def test_an_older_state_that_a_sidecar_wrote_late_is_put_right(cluster: DaprHouse) -> None:
    """A sidecar that stood still may write what was overtaken long ago: the newer state wins."""
    await cluster.create_by_actor(qos=1)
    older = cluster.world.state["job"]
    await cluster.trigger()
    await cluster.settle()
    newer = cluster.world.state["job"]
    cluster.world.state["job"] = older
    await cluster.advance(2_000)
    reply = await cluster.trigger()
    assert isinstance(reply, Started)
    assert reply.execute_number == 2
    assert newer != older


def in_a_newer_format(state: bytes) -> bytes:
    """What the sidecar keeps, with another format number."""
    document = msgspec.msgpack.decode(base64.b64decode(msgspec.json.decode(state)))
    return msgspec.json.encode(msgspec.msgpack.encode({**document, "format": 99}))


async def test_a_state_of_a_newer_program_is_left_alone(cluster: DaprHouse) -> None:
    """In a rolling upgrade: a node that does not know its format does nothing with it, and says why.

    The job goes on at a node that knows the format.
    """
    await cluster.create_by_actor(timer={"dueTime": "5s", "period": "0s"})
    older = cluster.world.state["job"]
    newer = in_a_newer_format(older)
    await cluster.crash()
    cluster.world.state["job"] = newer
    with pytest.raises(StoreUnavailable, match="format 99, this program knows 1; install a newer one"):
        await cluster.trigger()
    await cluster.advance(20_000)
    assert cluster.world.state["job"] == newer
    assert cluster.sender.urls() == []
    cluster.world.state["job"] = older
    await cluster.advance(20_000)
    assert cluster.sender.urls() == ["http://target.test/run"]
