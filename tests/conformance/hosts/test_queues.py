"""Pull queues of a cluster over the stand-in: what one node publishes, any node gives out."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.step_parts import PartEnd
from scheduler_service.domain.turn_events import CancelRequested, Updated
from scheduler_service.ports.delivery import Command
from scheduler_service.services.pull_queues import Completed
from tests.conformance.hosts.houses import moved
from tests.conformance.hosts.queue_house import QueueHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio
DONE = PartEnd(body=b'"done"')
AFTER = "http://target.test/after"


@pytest.fixture
async def house() -> AsyncIterator[QueueHouse]:
    opened = QueueHouse()
    await opened.start()
    yield opened
    await opened.close()


def members(**options: Any) -> dict[str, Any]:
    """A step in the queue, then a call that is given its response."""
    step = {"url": "queue://work", "unexpectedRetryDelaySeconds": 0, **options}
    return {"qos": 1, "timeoutSeconds": 300, "request": [step, {"url": AFTER}]}


async def test_work_is_claimed_completed_and_goes_on(house: QueueHouse) -> None:
    """The figures show it meanwhile; nothing is left of it afterwards."""
    await house.create(**members())
    await house.trigger()
    assert [(one.name, one.depth, one.held) for one in await house.figures()] == [("work", 1, 0)]
    (leased,) = await house.claim()
    assert [(one.depth, one.held) for one in await house.figures()] == [(0, 1)]
    assert await house.renew(leased.lease, progress="1/2") is not None
    assert await house.complete(leased.lease, DONE) is Completed.ACCEPTED
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}
    assert await house.complete(leased.lease, DONE) is Completed.ACCEPTED
    assert await house.complete(leased.lease, PartEnd(error="no")) is Completed.LOST
    assert house.parts_left() == 0


async def test_a_claim_that_waits_gets_what_another_node_publishes(house: QueueHouse) -> None:
    """Within a quarter of a second; leases are renewed and completed at either node."""
    job_id = moved(house)
    await house.add("two")
    await house.create(job_id, **members())
    waiting = asyncio.ensure_future(house.at["one"].queues.claim("default", "work", "w", most=1, wait=9_000))
    await house.advance(500)
    assert not waiting.done()
    await house.trigger(job_id)
    await house.advance(250)
    (leased,) = waiting.result()
    assert await house.renew(leased.lease, "two") is not None
    assert await house.complete(leased.lease, DONE, "two") is Completed.ACCEPTED
    await house.settle()
    assert house.executions(job_id) == {1: State.SUCCEEDED}


async def test_a_lease_of_a_dead_node_ends_in_its_time(house: QueueHouse) -> None:
    """Nobody renews it: the other node frees the part, and its history says so."""
    await house.add("two")
    await house.create(**members(leaseSeconds=20, renewSeconds=5))
    await house.trigger()
    assert len(await house.claim("a", name="one")) == 1
    await house.crash("one")
    await house.advance(19_000)
    assert await house.claim("b") == ()
    await house.advance(2_500)
    (leased,) = await house.claim("b")
    assert await house.complete(leased.lease, DONE) is Completed.ACCEPTED
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}


async def test_a_lease_is_held_beyond_the_node_that_gave_it(house: QueueHouse) -> None:
    """The worker goes on with the other one."""
    await house.add("two")
    await house.create(**members(leaseSeconds=30))
    await house.trigger()
    (leased,) = await house.claim(name="one")
    await house.crash("one")
    for _ in range(4):
        await house.advance(10_000)
        assert await house.renew(leased.lease) is not None
    assert await house.complete(leased.lease, DONE) is Completed.ACCEPTED
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}


async def test_while_nobody_was_there_no_lease_ended(house: QueueHouse) -> None:
    """The only node is down for longer than a lease: its length counts anew."""
    await house.create(**members(leaseSeconds=5, renewSeconds=2))
    await house.trigger()
    (leased,) = await house.claim()
    await house.crash()  # its next start takes ten seconds
    assert await house.renew(leased.lease) is not None
    assert await house.complete(leased.lease, DONE) is Completed.ACCEPTED
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}


async def test_a_crash_at_qos_0_withdraws_what_waits(house: QueueHouse) -> None:
    """The execution is lost; who holds a part of it hears so, and nobody else gets one."""
    await house.create(**{**members(parallelism=2), "qos": 0})
    await house.trigger()
    (leased,) = await house.claim("a")
    await house.crash()
    await house.recover()
    assert house.executions() == {1: State.TERMINATED}
    renewed = await house.renew(leased.lease)
    assert renewed is not None
    assert renewed.cancelled
    assert await house.claim("b") == ()
    assert await house.complete(leased.lease, DONE) is Completed.STALE
    assert house.parts_left() == 0


async def test_parts_follow_a_job_that_moves(house: QueueHouse) -> None:
    """At qos 0 too: its node hands the execution over, and the queue knows no node."""
    job_id = moved(house)
    await house.create(job_id, **{**members(), "qos": 0})
    await house.trigger(job_id)
    (leased,) = await house.claim()
    await house.add("two")
    await house.advance(2_000)
    assert await house.complete(leased.lease, DONE, "one") is Completed.ACCEPTED
    await house.settle()
    assert house.executions(job_id) == {1: State.SUCCEEDED}


async def test_what_is_cancelled_is_withdrawn_everywhere(house: QueueHouse) -> None:
    """A node other than the job's gives nothing of it out any more."""
    await house.add("two")
    await house.create(**members(parallelism=2))
    await house.trigger()
    (leased,) = await house.claim("a", name="two")
    await house.deliver(CancelRequested(1))
    for name in ("one", "two"):
        assert await house.claim("b", name=name) == ()
    renewed = await house.renew(leased.lease, "two")
    assert renewed is not None
    assert renewed.cancelled


async def test_an_update_applies_to_parts_that_lie_there(house: QueueHouse) -> None:
    """Who is not named any more loses its lease, and gets none, at each node."""
    await house.add("two")
    await house.create(**members())
    await house.trigger()
    (leased,) = await house.claim("a", name="two")
    changed = describe(**members(specificInstances=["b"]))
    await house.host("job", Command(Updated(0), definition=changed))
    assert await house.renew(leased.lease, "two") is None
    assert await house.claim("a", name="two") == ()
    assert len(await house.claim("b", name="two")) == 1


async def test_what_nobody_claims_ends_after_its_queue_timeout(house: QueueHouse) -> None:
    """Though the node that published it is dead."""
    await house.add("two")
    await house.create(**members(queueTimeoutSeconds=90))
    await house.trigger()
    await house.crash("one")
    await house.advance(95_000)
    assert house.executions() == {1: State.TERMINATED}
    assert [error for errors in house.ended_parts(["job"]).values() for error in errors] == ["queue_timeout"]


async def test_a_pause_holds_at_every_node(house: QueueHouse) -> None:
    """Also after the death of the one that was told; no queue timeout ends meanwhile."""
    await house.add("two")
    await house.create(**members(queueTimeoutSeconds=60))
    await house.trigger()
    await house.pause("one")
    await house.crash("one")
    await house.advance(90_000)
    assert await house.claim(name="two") == ()
    await house.add("one")
    await house.advance(2_000)
    assert await house.claim(name="one") == ()
    claiming = asyncio.ensure_future(house.claim(wait=20_000, name="one"))
    await house.settle()
    await house.ask(lambda queues: queues.resume("default", "work"), "two")
    (leased,) = await claiming
    assert await house.complete(leased.lease, DONE) is Completed.ACCEPTED
