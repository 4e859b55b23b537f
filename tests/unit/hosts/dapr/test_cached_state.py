"""What nodes of 0.1.0 have written is taken over by the job's next turn; what is lost is restored."""

import base64
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.moments import HOUR
from scheduler_service.domain.replies import Started, Taken
from scheduler_service.domain.turn_events import Created, FeedbackArrived
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.persistence.common.packing import OldState, read_row_state
from scheduler_service.persistence.job_store.job_store_schema import copies
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse
from tests.present import present
from tests.unit.hosts.house import asynchronous, describe
from tests.unit.persistence.samples import delivery

pytestmark = pytest.mark.anyio
KEY = b"k" * 32
GONE = Holder("gone", "0")


async def grow_old(cluster: DaprHouse, job_id: str = "job", age: int = 0, **members: Any) -> bytes:
    """The node dies, and what its row says of the job lies where 0.1.0 has put it; its state, packed.

    The row was claimed `age` ms ago.
    """
    row = present(await cluster.node.shared.load(job_id))
    kept = read_row_state(row.state or b"")
    old = OldState(1, row.sequence, GONE, row.entry, row.due, kept.document, **members)
    bare = (
        sa.update(jobs)
        .where(jobs.c.job_id == job_id)
        .values(turn_state=None, node="gone", boot="0", claimed_at=cluster.clock.now().steady - age)
    )
    await cluster.database.write(lambda connection: connection.execute(bare) and None)
    packed = msgspec.msgpack.encode(old)
    cluster.world.state[job_id] = msgspec.json.encode(base64.b64encode(packed).decode())
    await cluster.crash()
    return packed


async def test_an_execution_of_an_old_node_goes_on(cluster: DaprHouse) -> None:
    """From its context in the actor store; from its next turn on all of the job is its row."""
    await cluster.create(**asynchronous(qos=1, timeoutSeconds=600))
    await cluster.trigger()
    await cluster.settle()
    await grow_old(cluster)
    report = FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"})
    assert await cluster.deliver(report) == Taken()
    assert cluster.world.state  # as if a sidecar had written it late
    await cluster.crash()
    await cluster.advance(20_000)
    assert cluster.executions() == {1: State.SUCCEEDED}
    row = present(await cluster.node.shared.load("job"))
    assert row.state is not None


async def test_what_the_shared_tables_lack_comes_there_once(cluster: DaprHouse) -> None:
    """A delivery and an answer; a read that is repeated before the next turn sends nothing again."""
    await cluster.create(timer={"dueTime": "60s", "period": "60s"})
    told = delivery(1, uid="uid1", job_id="job", durable=True)
    kept = Remembered("trigger/job", "key", b"d", b"answer", cluster.clock.now().wall, "job")
    await grow_old(cluster, deliveries=(told,), remembered=(kept,))
    for _ in range(2):
        await cluster.host.read("job")
        await cluster.advance(2_000)
    await cluster.crash()
    await cluster.host.read("job")
    await cluster.advance(20_000)
    sent = [url for target in cluster.targets for url in target.urls()]
    assert sent.count(told.request.url) == 1
    assert await cluster.node.shared.recall("trigger/job", "key", 0) == kept


async def test_what_was_told_long_ago_is_told_no_more(cluster: DaprHouse) -> None:
    """The delivery was done, and is not known any more (`prune`): the old state has it still."""
    await cluster.create()
    await grow_old(cluster, age=HOUR, deliveries=(delivery(1, uid="uid1", job_id="job", durable=True),))
    await cluster.host.read("job")
    await cluster.advance(20_000)
    assert [url for target in cluster.targets for url in target.urls()] == []


async def test_a_state_of_an_old_node_may_lie_in_its_row(cluster: DaprHouse) -> None:
    """At qos 0, and until the second turn of a job."""
    await cluster.create(timer={"dueTime": "60s", "period": "60s"})
    packed = await grow_old(cluster)
    await write(cluster, packed)
    cluster.world.state.clear()
    await cluster.crash()
    await cluster.advance(60_000)
    assert [record.execute_number for record in cluster.finished("job")] == [1]


async def test_the_newer_of_a_copy_and_the_actor_store_counts(cluster: DaprHouse) -> None:
    """A sidecar may have written an older state over what a copy beside the claim has."""
    await cluster.create()
    older = await grow_old(cluster)
    await cluster.trigger()
    await cluster.settle()
    newer = await grow_old(cluster)
    claimed = await cluster.node.shared.sequence("job")
    row = {"job_id": "job", "sequence": claimed, "state": newer, "at": 0}
    await cluster.database.write(
        lambda connection: connection.execute(sa.insert(copies).values(row)) and None
    )
    cluster.world.state["job"] = msgspec.json.encode(base64.b64encode(older).decode())
    reply = await cluster.trigger()
    assert isinstance(reply, Started)
    assert reply.execute_number == 2


async def test_a_lost_state_is_restored_from_the_catalogue() -> None:
    """What the catalogue has as living lives again, its counters go on (SPEC sections 9 and 11)."""
    asked: list[tuple[str, str]] = []

    async def owner_of(job_id: str, uid: str) -> str:
        asked.append((job_id, uid))
        return "billing"

    cluster = await DaprHouse(owner_of=owner_of).start()
    try:
        declared = describe(jobId="job", request=[{"url": "service:/run"}])
        await cluster.host("job", Command(Created("", b"", owner="billing"), declared))
        await grow_old(cluster)
        cluster.world.state.clear()
        await cluster.advance(20_000)
        job = present(await cluster.host.read("job"))
        assert job.document is not None
        assert (job.document.head.uid, job.document.head.owner) == ("uid1", "billing")
        assert set(asked) == {("job", "uid1")}
    finally:
        await cluster.close()


async def test_a_state_of_a_newer_program_is_left_alone(cluster: DaprHouse) -> None:
    """In a rolling upgrade: a node that does not know its format does nothing with it, and says why."""
    await cluster.create(timer={"dueTime": "5s", "period": "0s"})
    row = present(await cluster.node.shared.load("job"))
    newer = msgspec.msgpack.encode([99, *msgspec.msgpack.decode(row.state or b"")[1:]])
    await write(cluster, newer)
    await cluster.crash()
    with pytest.raises(StoreUnavailable, match="format 99, this program knows 2; install a newer one"):
        await cluster.trigger()
    await cluster.advance(20_000)
    assert cluster.sender.urls() == []
    await write(cluster, row.state)
    await cluster.advance(20_000)
    assert cluster.sender.urls() == ["http://target.test/run"]


async def write(cluster: DaprHouse, state: bytes | None) -> None:
    """Another program's state in the job's row."""
    given = sa.update(jobs).where(jobs.c.job_id == "job").values(turn_state=state)
    await cluster.database.write(lambda connection: connection.execute(given) and None)
