"""Turns on a job that two nodes may take."""

import asyncio

import pytest
from dapr.clients.exceptions import DaprInternalError

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Recalled, Started
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse, freeze

pytestmark = pytest.mark.anyio


async def test_a_turn_that_was_overtaken_is_taken_anew(cluster: DaprHouse) -> None:
    """Its actor went and came back: what it had read is old, it reads again, and no number is used twice."""
    await cluster.create()
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    cluster.world.kill("one")
    second = await cluster.add("two")
    await cluster.advance(1_000)
    reply = await second.host("job", Command(Triggered()))
    await cluster.settle()
    cluster.world.active["job"] = "one"
    gate.set_result(None)
    again = await frozen
    assert isinstance(reply, Started)
    assert isinstance(again, Started)
    assert (reply.execute_number, again.execute_number) == (1, 2)


async def test_two_nodes_never_take_a_turn_together(cluster: DaprHouse) -> None:
    """While one node's claim stands, another one's turn on the same job is refused, and does nothing."""
    await cluster.create(qos=1)
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cluster.world.before_save = lambda node, actor_id: gate if node == "one" else None
    slow = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    first = cluster.nodes["one"]
    cluster.world.nodes.pop("one")
    cluster.world.release_locks()
    second = await cluster.add("two")
    with pytest.raises(StoreError):
        await second.host("job", Command(Triggered()))
    assert cluster.sender.requests == []
    gate.set_result(None)
    await slow
    await cluster.settle()
    assert len(cluster.sender.requests) == 1
    assert first.host.jobs_held == 1


async def test_a_save_of_which_nobody_heard_keeps_its_answer(cluster: DaprHouse) -> None:
    """The state was written and the sidecar's answer lost: asked again, nothing is done twice
    (SPEC section 10)."""
    await cluster.create(qos=1)
    remembered = Remembered("trigger/job", "key", b"digest", b"", cluster.clock.now().wall)

    def lose(node: str, actor_id: str) -> None:
        cluster.world.after_save = None
        raise DaprInternalError("the connection was closed")

    cluster.world.after_save = lose
    with pytest.raises(StoreError):
        await cluster.host("job", Command(Triggered(), remembered=remembered))
    await cluster.advance(3_000)
    assert isinstance(await cluster.host("job", Command(Triggered(), remembered=remembered)), Recalled)
    assert cluster.executions() == {1: State.SUCCEEDED}
