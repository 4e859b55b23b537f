"""Six instances of three services come and go at two nodes that are themselves stopped, killed and started.

What each was told, all know (SPEC section 13): a step goes only to who is there, and nothing ends as
`no_instance` while one is.
"""

import random

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.ports.errors import StoreError
from tests.conformance.hosts.fleet import KNOWN_WITHIN, Fleet, FleetHouse

pytestmark = pytest.mark.anyio
SERVICES = ("shop", "till", "yard")
NODES = ("one", "two")
STEPS = 150
STEP_MS = 400


class Story:
    """One seed of what happens, and what every execution must come to."""

    def __init__(self, house: FleetHouse, seed: int) -> None:
        self.house = house
        self.chance = random.Random(seed)
        self.fleet = Fleet(house, SERVICES, 2, self.chance)

    async def play(self) -> None:
        """To the end of all that was begun."""
        house = self.house
        house.sender = self.fleet  # type: ignore[assignment]
        for node in NODES:
            await house.begin(node)
        for service in SERVICES:
            await house.create(
                service, qos=1, timeoutSeconds=60, request=[{"url": f"service://{service}/run"}]
            )
        for step in range(STEPS):
            await self.go_on(step)
        for _ in range(100):
            await self.pass_by()

    async def go_on(self, step: int) -> None:
        """Something happens, and something is asked for."""
        await self.fleet.happen()
        if step % 25 == 24:
            await self.disturb()
        service = self.chance.choice(SERVICES)
        try:
            await self.house.trigger(service)
        except StoreError:
            return  # its node has just died; nothing was begun
        await self.pass_by()

    async def pass_by(self) -> None:
        """Time goes by."""
        await self.house.advance(STEP_MS)
        await self.fleet.beat()

    async def disturb(self) -> None:
        """A node is stopped or dies, or comes back."""
        gone = [node for node in NODES if node not in self.house.nodes]
        if gone:
            for _ in range(10 * SECOND // STEP_MS + 1):  # till then a dead node's name is taken
                await self.pass_by()
            await self.house.begin(gone[0])
        else:
            await self.house.end(self.chance.choice(NODES), kill=self.chance.random() < 0.5)

    def ended(self, service: str) -> list[ExecutionRecord]:
        """The executions of its job that ran and ended."""
        return [one for one in self.house.finished(service) if one.state is not State.SKIPPED]

    def ended_without_cause(self, service: str) -> list[str]:
        """Those that ended badly, though an instance was there all the time."""
        found = []
        for one in self.ended(service):
            assert one.ended_at is not None
            if one.state is not State.SUCCEEDED and self.fleet.was_there(
                service, one.created_at - KNOWN_WITHIN, one.ended_at
            ):
                found.append(f"{service} {one.execute_number}: {one.error} at {one.ended_at}")
        return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
async def test_a_step_goes_to_who_is_there(seed: int) -> None:
    """All that was begun ends, and badly only in a time in which nobody was there."""
    house = FleetHouse()
    await house.start()
    story = Story(house, seed)
    try:
        await story.play()
    finally:
        for view in house.views.values():
            await view.view.stop()
        await house.close()
    assert story.fleet.astray == []
    assert story.fleet.answered > STEPS // 3
    for service in SERVICES:
        assert story.ended_without_cause(service) == []
        assert set(house.executions(service).values()) <= {State.SUCCEEDED, State.TERMINATED, State.SKIPPED}


@pytest.mark.parametrize("kill", [False, True])
async def test_a_pause_holds_at_every_node(kill: bool) -> None:
    """Whichever has the job, and over the end of the one that was told; then each step is sent, once."""
    house = FleetHouse()
    await house.start()
    fleet = Fleet(house, ("shop",), 1, random.Random(7))
    house.sender = fleet  # type: ignore[assignment]
    for node in NODES:
        await house.begin(node)
    (program,) = fleet.programs.values()
    while not program.is_running:
        await fleet.happen()
    jobs = [f"job-{number}" for number in range(6)]
    for job in jobs:
        await house.create(job, qos=1, timeoutSeconds=20, request=[{"url": "service://shop/run"}])
    await house.views["one"].registry.pause_service("default", "shop")
    await pass_time(house, fleet, 2)
    for job in jobs:
        await house.trigger(job)
    await pass_time(house, fleet, 40)
    await house.end("one", kill=kill)
    await pass_time(house, fleet, 40)
    assert fleet.answered == 0
    await house.views["two"].registry.resume_service("default", "shop")
    await pass_time(house, fleet, 10)
    ended = [(one.state, one.attempt_count) for job in jobs for one in house.finished(job)]
    assert ended == [(State.SUCCEEDED, 1)] * len(jobs)
    assert fleet.answered == len(jobs)
    await house.views["two"].view.stop()
    await house.close()


async def pass_time(house: FleetHouse, fleet: Fleet, seconds: int) -> None:
    """With heartbeats."""
    for _ in range(seconds * 2):
        await house.advance(500)
        await fleet.beat()
