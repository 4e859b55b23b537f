"""Twenty workers and several hundred parts on two nodes; nodes and workers are killed at random.

Each part is completed once, whoever dies (SPEC section 13). The seeds are fixed.
"""

import random
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.leases import Leased
from scheduler_service.domain.step_parts import PartEnd
from scheduler_service.ports.errors import StoreError
from scheduler_service.services.pull_queues import Completed
from tests.conformance.hosts.queue_house import QueueHouse

pytestmark = [pytest.mark.anyio, pytest.mark.long]
NODES = ("one", "two")
WORKERS, JOBS, PARTS = 20, 20, 10
ROUND_MS = 500
STEP = {
    "url": "queue://work",
    "parallelism": PARTS,
    "leaseSeconds": 6,
    "renewSeconds": 2,
    "maxUnexpectedRetries": 1_000,
    "unexpectedRetryDelaySeconds": 0,
}


class Hand:
    """A worker: what it holds, and how many rounds it works on that."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held: Leased | None = None
        self.left = 0


class Crowd:
    """The workers, the nodes, and what was accepted."""

    def __init__(self, house: QueueHouse, seed: int) -> None:
        self.house = house
        self.chance = random.Random(seed)
        self.hands = [Hand(f"w{number}") for number in range(WORKERS)]
        self.accepted: dict[object, set[str]] = defaultdict(set)
        self.deaths = 0
        self.back_at: dict[str, int] = {}

    async def play(self) -> None:
        """Until every part has ended."""
        for number in range(JOBS):
            await self.insist(f"job{number}")
        for turn in range(400):
            if turn in (6, 30, 54):
                await self.kill_a_node()
            await self.bring_back()
            for hand in self.hands:
                await self.work(hand)
            await self.house.advance(ROUND_MS)
            if len(self.done()) == JOBS and not self.house.parts_left():
                return

    async def insist(self, job_id: str) -> None:
        """Creates and triggers a job."""
        await self.house.create(job_id, qos=1, timeoutSeconds=3_000, request=[STEP])
        await self.house.trigger(job_id)

    async def work(self, hand: Hand) -> None:
        """One round of a worker at any node; it may die, and come back knowing nothing."""
        node = self.chance.choice(list(self.house.at))
        if hand.held is None:
            found = await self.house.claim(hand.name, name=node)
            hand.held = found[0] if found else None
            hand.left = self.chance.randrange(4)
        elif self.chance.random() < 0.03:
            hand.held, self.deaths = None, self.deaths + 1
        elif hand.left:
            hand.left -= 1
            if await self.house.renew(hand.held.lease, node) is None:
                hand.held = None
        else:
            await self.complete(hand, hand.held, node)

    async def complete(self, hand: Hand, held: Leased, node: str) -> None:
        """Ends its part, and says so twice now and then, as after an answer that was lost."""
        for _ in range(1 + (self.chance.random() < 0.1)):
            said = await self.house.complete(held.lease, PartEnd(body=b"1"), node)
            if said is Completed.ACCEPTED:
                self.accepted[held.part.name].add(held.lease)
        hand.held = None

    async def kill_a_node(self) -> None:
        """One of two; its name is taken for ten seconds."""
        if len(self.house.at) < len(NODES):
            return
        name = self.chance.choice(NODES)
        self.back_at[name] = self.house.clock.now().steady + 11_000
        await self.house.crash(name)

    async def bring_back(self) -> None:
        """Those whose time has come."""
        for name, at in list(self.back_at.items()):
            if self.house.clock.now().steady >= at:
                del self.back_at[name]
                try:
                    await self.house.add(name)
                except StoreError:
                    self.back_at[name] = at + 1_000

    def done(self) -> list[str]:
        """The jobs whose execution has ended."""
        states = {f"job{number}": self.house.executions(f"job{number}") for number in range(JOBS)}
        return [job_id for job_id, one in states.items() if one == {1: State.SUCCEEDED}]


@pytest.fixture
async def house() -> AsyncIterator[QueueHouse]:
    """Two nodes."""
    opened = QueueHouse()
    await opened.start()
    await opened.add("two")
    yield opened
    await opened.close()


@pytest.mark.parametrize("seed", [1, 2])
async def test_each_part_is_completed_once(house: QueueHouse, seed: int) -> None:
    """However many nodes and workers die."""
    crowd = Crowd(house, seed)
    await crowd.play()
    assert sorted(crowd.done()) == sorted(f"job{number}" for number in range(JOBS))
    assert house.parts_left() == 0
    assert crowd.deaths > 0
    assert len(house.gone) >= 2
    assert len(crowd.accepted) == JOBS * PARTS
    assert {len(leases) for leases in crowd.accepted.values()} == {1}
    ended: dict[Any, list[str | None]] = dict(house.ended_parts([f"job{number}" for number in range(JOBS)]))
    parts = {place: errors for place, errors in ended.items() if place[-1] is not None}
    assert set(map(tuple, parts.values())) == {(None,)}
    assert len(parts) == JOBS * PARTS
