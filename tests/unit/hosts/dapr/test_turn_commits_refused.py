"""What daprd refuses, or a store does not confirm, loses nothing (decisions 51 and 62)."""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.events import Created, Destroyed, Triggered, Updated
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Recalled, Started
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.sidecar import ActorMissing
from scheduler_service.hosts.messages import write_kept
from scheduler_service.persistence.common.actor_document import ActorDocument, read_actor_document
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse, moved
from tests.unit.hosts.house import START, asynchronous, describe

pytestmark = pytest.mark.anyio

HOOK = "http://caller.test/told"
MINUTELY = {"dueTime": "60s", "period": "60s"}
SOON = {"dueTime": "1s", "period": "60s"}


def refuse_once(cluster: DaprHouse) -> None:
    """daprd refuses the next state, as in each move of an actor."""
    world, save = cluster.world, cluster.world.save

    async def refuse(*_: Any) -> None:
        world.save = save  # type: ignore[method-assign]
        raise ActorMissing("missing")

    world.save = refuse  # type: ignore[method-assign]


def in_actor_store(cluster: DaprHouse, job_id: str = "job") -> ActorDocument:
    """The state that daprd has."""
    return read_actor_document(base64.b64decode(json.loads(cluster.world.state[job_id])))


async def state_of(cluster: DaprHouse, job_id: str = "job") -> JobState:
    """What lists say of the job."""
    entry = await cluster.catalogue.get(job_id)
    assert entry is not None
    return entry.state


async def test_a_destruction_that_is_refused_leaves_the_job_in_lists(cluster: DaprHouse) -> None:
    """Its claim is taken back with all that it said: else `clean` would remove the definition."""
    await cluster.create(qos=1)
    for _ in range(2):
        await cluster.trigger()
        await cluster.settle()
    refuse_once(cluster)
    with pytest.raises(StoreUnavailable):
        await cluster.deliver(Destroyed())
    assert await state_of(cluster) is JobState.ACTIVE
    assert not await cluster.node.shared.forget("job")
    await cluster.crash()
    assert isinstance(await cluster.trigger(), Started)


@pytest.mark.parametrize("dies", [False, True])
async def test_a_destruction_counts_once_the_actor_store_has_it(cluster: DaprHouse, dies: bool) -> None:
    """Though its claim has a copy: that goes with the row, and an older state would come back.

    Where the node dies first, another start of it brings the state there when the job is asked for.
    """
    await cluster.create(qos=1, timer=MINUTELY)
    await cluster.advance(61_000)
    await cluster.host("job", Command(Updated(2), describe(jobId="job", qos=0, timer=MINUTELY)))
    await cluster.advance(61_000)
    refuse_once(cluster)
    with pytest.raises(StoreUncertain):
        await cluster.deliver(Destroyed())
    if dies:
        await cluster.crash()
        assert await cluster.host.read("job") is None
    await cluster.advance(10_000)
    assert in_actor_store(cluster).document is None
    assert await state_of(cluster) is JobState.DESTROYED


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_new_life_outlives_its_node_from_its_claim_on(cluster: DaprHouse, qos: int) -> None:
    """The actor store still has the end of the earlier life when the node dies."""
    job_id = moved(cluster)
    await cluster.create(job_id, qos=1)
    await cluster.trigger(job_id)
    await cluster.settle()
    await cluster.deliver(Destroyed(), job_id)
    await cluster.settle()
    await cluster.add("two")
    await cluster.advance(1_000)
    points, pass_by, ended = cluster.points, cluster.points.pass_by, len(cluster.finished(job_id))

    async def die(process: str, name: str) -> None:
        if name == "before save" and points.died is None:
            points.died = (process, name)
            cluster.freeze(process)
            await asyncio.get_running_loop().create_future()
        await pass_by(process, name)

    points.pass_by = die  # type: ignore[method-assign]
    again = Command(Created("", b""), describe(jobId=job_id, qos=qos, timer=SOON))
    creating = asyncio.ensure_future(cluster.host(job_id, again))
    await cluster.advance(5_000)
    assert points.died is not None
    await cluster.crash(points.died[0])
    await cluster.advance(60_000)
    await asyncio.gather(creating, return_exceptions=True)  # nobody answered
    assert await state_of(cluster, job_id) is JobState.ACTIVE
    assert len(cluster.finished(job_id)) > ended


@pytest.mark.parametrize("qos", [0, 1])
async def test_an_answer_that_sql_did_not_take_is_known(cluster: DaprHouse, qos: int) -> None:
    """Under its Idempotency-Key: one execution, however often it is asked for."""
    await cluster.create(qos=qos, **asynchronous(timeoutSeconds=600, overlapPolicy="allow"))
    shared, keep = cluster.node.shared, cluster.node.shared.keep

    async def refuse(
        deliveries: Sequence[Delivery], answers: Sequence[Remembered], holder: Holder
    ) -> list[Delivery]:
        if answers:
            shared.keep = keep  # type: ignore[method-assign]
            raise StoreUnavailable("the server is gone")
        return await keep(deliveries, answers, holder)

    shared.keep = refuse  # type: ignore[method-assign]
    keyed = Command(Triggered(), None, Remembered("jobs/job", "once", b"d", b"", START), write_kept)
    first = await cluster.host("job", keyed)
    assert isinstance(first, Started)
    assert await cluster.host("job", keyed) == Recalled(write_kept(first), same_digest=True)
    await cluster.settle()
    assert list(cluster.executions()) == [1]


async def test_deliveries_of_a_dead_node_are_sent_though_sql_did_not_confirm_them(cluster: DaprHouse) -> None:
    """They were this node's from then on, and in nobody's hands."""
    job_id = moved(cluster)
    two = await cluster.add("two")
    shared, keep = cluster.nodes["one"].shared, cluster.nodes["one"].shared.keep
    told = [{"url": HOOK, "stateEquals": ["finalSucceed"], "guarantee": "outbox"}]
    await cluster.create(job_id, qos=1, notification=told)
    await cluster.settle()

    kept_by_two = two.shared.keep

    async def never(
        deliveries: Sequence[Delivery], answers: Sequence[Remembered], holder: Holder
    ) -> list[Delivery]:
        if deliveries:
            cluster.points.died = ("two", "keep")
            cluster.freeze("two")
            await asyncio.get_running_loop().create_future()
        return await kept_by_two(deliveries, answers, holder)

    async def lose(
        deliveries: Sequence[Delivery], answers: Sequence[Remembered], holder: Holder
    ) -> list[Delivery]:
        found = await keep(deliveries, answers, holder)
        if deliveries:
            shared.keep = keep  # type: ignore[method-assign]
            raise StoreUncertain("the connection was lost")
        return found

    two.shared.keep = never  # type: ignore[method-assign]
    shared.keep = lose  # type: ignore[method-assign]
    asking = asyncio.ensure_future(cluster.trigger(job_id))
    await cluster.advance(2_000)
    assert cluster.points.died is not None
    await cluster.crash("two")
    await cluster.advance(60_000)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert HOOK in cluster.sender.urls()
    assert await shared.deliveries("", 10) == []


async def test_records_are_taken_over_though_deliveries_are_not(cluster: DaprHouse) -> None:
    """Both are adopted one after the other: what is this node's already comes into its history."""
    shared, adopt = cluster.node.shared, cluster.node.shared.adopt
    batch = Batch("uid", "job", "default", -5, START, ())
    await cluster.database.write(
        lambda connection: shared.pending_history.put(connection, [batch], Holder("gone", "0"))
    )

    async def fail(*given: Any) -> list[Delivery]:
        shared.adopt = adopt  # type: ignore[method-assign]
        raise StoreUnavailable("the server is gone")

    shared.adopt = fail  # type: ignore[method-assign]
    await cluster.advance(5_000)
    assert batch in cluster.batches("job")
