"""A node of a cluster is killed before and after all that it does with a queue (SPEC sections 8 and 13).

Claims of turns, writes of states, writes into the queues and each write to a part are counted over a story;
each of them is once the place where the process that does it dies. Two instances go on with what they hold.
"""

from collections import defaultdict
from functools import partial
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.leases import Leased
from scheduler_service.domain.replies import Recalled, Started
from scheduler_service.domain.step_parts import PartEnd
from scheduler_service.domain.turn_events import Created, Triggered
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered
from scheduler_service.services.pull_queues import Completed
from tests.conformance.hosts.deaths import live_through
from tests.conformance.hosts.queue_house import QueueHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio
JOB, AFTER = "job", "http://target.test/after"
INSTANCES = ("w1", "w2")
STEP = {
    "url": "queue://work",
    "parallelism": len(INSTANCES),
    "leaseSeconds": 4,
    "renewSeconds": 1,
    "maxUnexpectedRetries": 100,
    "unexpectedRetryDelaySeconds": 0,
}
GROUPS = 12
KINDS = {"claims", "claim", "part", "reminder", "removal of a reminder", "send"}
"""What the story does; with qos 1 it saves states as well."""


class Story:
    """One execution: a step of two parts in a queue, then a call that is given what they came to."""

    def __init__(self, house: QueueHouse, qos: int) -> None:
        self.house = house
        self.qos = qos
        self.held: dict[str, Leased] = {}
        self.accepted: dict[int, set[str]] = defaultdict(set)

    async def play(self) -> None:
        """To its end, whoever dies on the way."""
        members: dict[str, Any] = {"qos": self.qos, "timeoutSeconds": 600}
        definition = describe(jobId=JOB, request=[STEP, {"url": AFTER}], **members)
        await self.insist(Command(Created("", b""), definition))
        remembered = Remembered("trigger/job", "once", b"digest", b"", self.house.clock.now().wall)
        reply = await self.insist(Command(Triggered(), remembered=remembered))
        if isinstance(reply, Recalled):
            assert msgspec.json.decode(reply.answer)["execute_number"] == 1
        else:
            assert isinstance(reply, Started), reply
        for _ in range(200):
            if self.is_done() and not self.house.parts_left():
                return
            for name in INSTANCES:
                await self.work(name)
            await self.house.advance(1_000)
            await self.house.bury()

    async def insist(self, command: Command) -> Any:
        """As a caller of the API who repeats what is not answered."""
        house = self.house
        while True:
            try:
                return await house.ask(lambda _: house.host(JOB, command))
            except StoreError:
                await house.advance(500)

    async def work(self, name: str) -> None:
        """A round of an instance; who hears that its lease is lost forgets about it."""
        if name not in self.held:
            found = await self.house.claim(name)
            self.held |= dict(zip([name], found, strict=False))
        if name not in self.held:
            return
        leased = self.held[name]
        if await self.house.renew(leased.lease) is not None:
            index = leased.part.name.index
            said = await self.house.complete(leased.lease, PartEnd(body=str(index).encode()))
            if said is Completed.ACCEPTED:
                self.accepted[index].add(leased.lease)
        del self.held[name]

    def is_done(self) -> bool:
        """Whether the execution has ended."""
        states = self.house.executions(JOB)
        return bool(states) and set(states.values()) <= {State.SUCCEEDED, State.TERMINATED}

    def check(self) -> None:
        """Nothing is lost, no part ended twice, nothing is left in the queue."""
        died = self.house.points.died
        states = self.house.executions(JOB)
        if self.qos == 1 or died is None:
            assert states == {1: State.SUCCEEDED}, states
        assert set(states) == {1}
        assert self.house.parts_left() == 0
        assert all(len(leases) == 1 for leases in self.accepted.values()), self.accepted
        ended = self.house.ended_parts([JOB])
        assert all(len(errors) == 1 for errors in ended.values()), ended
        if states == {1: State.SUCCEEDED}:
            recorded = {part for *_, part in ended if part is not None}
            assert set(self.accepted) == {0, 1}
            assert recorded == {0, 1} or self.qos == 0


def groups() -> list[Any]:
    """Some points with two nodes, others with one; `--long`: all."""
    usual = {2: (1,), 1: (2,)}
    return [
        pytest.param(nodes, first, marks=() if first in usual[nodes] else pytest.mark.long)
        for first in range(1, GROUPS + 1)
        for nodes in (2, 1)
    ]


@pytest.mark.parametrize(("nodes", "first"), groups())
@pytest.mark.parametrize("qos", [0, 1])
async def test_whatever_a_node_is_killed_at_each_part_ends_once(qos: int, nodes: int, first: int) -> None:
    """Every point of the story, before and after; one that nobody dies in has all kinds."""
    places = []
    for point in range(first, 1_000, GROUPS):
        house = QueueHouse()
        died = await live_through(house, partial(Story, house, qos), point=point, nodes=nodes)
        if died is None:
            break
        places.append(died[1])
    passed = house.points
    assert len(places) == len(range(first, passed.count + 1, GROUPS)), places
    assert {what.partition(" ")[2] for what in passed.seen} == KINDS | ({"save"} if qos else set())
