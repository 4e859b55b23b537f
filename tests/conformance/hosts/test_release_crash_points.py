"""A node dies while it takes a claim back whose state daprd has refused, before, at, and after that."""

import asyncio
from collections import Counter

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import StepEnded
from scheduler_service.ports.cluster import TurnClaim
from tests.conformance.hosts.houses import DaprHouse

pytestmark = pytest.mark.anyio

JOB = "job"
FIRST, SECOND = "http://target.test/first", "http://target.test/second"
LONGEST = 100
"""Points of the story at most."""


async def refuse_one(house: DaprHouse, point: int) -> None:
    """daprd of the job's node starts anew before the first answer is claimed; `point` counts from there."""
    node = house.nodes[house.world.active[JOB]]
    shared, gate, claims = node.shared, asyncio.Event(), asyncio.Event()
    claim = shared.claim

    async def wait(one: TurnClaim) -> None:
        claims.set()
        await gate.wait()
        await claim(one)

    shared.claim = wait  # type: ignore[method-assign]
    house.sender.release(FIRST)
    await house.settle()
    assert claims.is_set()
    house.world.restart(node.name)
    shared.claim = claim  # type: ignore[method-assign]
    house.points.count, house.points.chosen = 0, point
    gate.set()


async def live_through(point: int, qos: int, nodes: int) -> tuple[DaprHouse, str | None]:
    """One story, killed at `point` of what follows the refusal; None: it was over before."""
    house = await DaprHouse().start()
    if nodes == 2:
        await house.add("two")
    house.sender.hold(FIRST)
    # At qos 0 the turn of an answer is durable where it ends the execution.
    steps = [{"url": FIRST}, {"url": SECOND}] if qos else [{"url": FIRST}]
    await house.create(JOB, request=steps, qos=qos)
    await house.trigger(JOB)
    await house.settle()
    await refuse_one(house, point)
    await house.advance(1_000)
    died = house.points.died
    if died is not None:
        await house.crash(died[0])
    await house.advance(40_000)
    return house, None if died is None else died[1]


def check(house: DaprHouse, qos: int, died: str | None) -> None:
    """Nothing lost but what qos 0 may lose, no step recorded twice, none sent again that was recorded."""
    state = house.executions(JOB)[1]
    may_be_lost = qos == 0 and died is not None
    assert state is State.SUCCEEDED or (may_be_lost and state is State.TERMINATED), died
    sent = Counter(request.url for target in house.targets for request in target.requests)
    assert max(sent.values()) <= (2 if qos and died else 1), (died, sent)
    batches = {(one.uid, one.sequence): one for one in house.batches(JOB)}.values()
    ended = Counter(one.index for batch in batches for one in batch.records if isinstance(one, StepEnded))
    assert set(ended.values()) <= {1}, (died, ended)
    assert may_be_lost or len(ended) == (2 if qos else 1), (died, ended)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_node_dies_over_a_claim_that_is_taken_back(qos: int, nodes: int) -> None:
    """The row is as the refused turn left it or as before: the next node goes on from what is written."""
    places = []
    for point in range(1, LONGEST):
        house, died = await live_through(point, qos, nodes)
        try:
            check(house, qos, died)
        finally:
            await house.close()
        if died is None:
            break
        places.append(died)
    # At qos 0 the claim is the commit, and daprd is asked for nothing that it could refuse.
    what = "release" if qos else "claim"
    assert {f"before {what}", f"after {what}"} <= set(places), places
