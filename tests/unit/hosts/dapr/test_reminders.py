"""Rings of the dapr host under load: what daprd cannot take yet waits here, once a job."""

import asyncio
from typing import Any

import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.hosts.dapr.reminders import RINGS_AT_ONCE, ReminderAlarms
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.ports.errors import StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import SKEW, START

pytestmark = pytest.mark.anyio


class Slow:
    """Turns that last until the gate opens; `fails` are those that then end in an error."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=START, skew=SKEW)
        self.gate = asyncio.Event()
        self.begun: list[str] = []
        self.fails: set[str] = set()
        sidecar: Any = Sidecar(client=None)  # type: ignore[arg-type] # no reminder is set here
        self.alarms = ReminderAlarms(sidecar=sidecar, clock=self.clock, ring=self._take, log=self._write)

    async def hold(self, *jobs: str) -> None:
        """All due at this moment."""
        for job in jobs:
            await self.alarms.hold(job, Due(START, None))
        await self.settle()

    async def advance(self, pause: int) -> None:
        """The clock runs on."""
        self.clock.advance(pause)
        await self.settle()

    async def settle(self) -> None:
        """Everything that can go on does."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def _take(self, job_id: str) -> None:
        self.begun.append(job_id)
        await self.gate.wait()
        if job_id in self.fails:
            raise StoreUnavailable("the sidecar did not reach an actor")

    def _write(self, event: str, /, **_: object) -> None:
        return None


async def test_a_herd_waits_here_and_not_in_the_sidecar() -> None:
    """No more at once than daprd lets run; in order, each once, none forgotten."""
    slow = Slow()
    jobs = [f"job{number}" for number in range(3 * RINGS_AT_ONCE)]
    await slow.hold(*jobs)
    await slow.advance(10)
    assert slow.begun == jobs[:RINGS_AT_ONCE]
    assert RINGS_AT_ONCE < 100
    slow.gate.set()
    await slow.settle()
    assert slow.begun == jobs
    assert not slow.alarms.is_ringing


async def test_rings_say_by_how_much_they_are_late() -> None:
    """Those that waited for their turn, until none was late for a second; small delays say nothing."""
    slow = Slow()
    await slow.hold(*(f"job{number}" for number in range(2 * RINGS_AT_ONCE)))
    await slow.advance(10)
    assert slow.alarms.lag == 0
    await slow.advance(3_000)
    slow.gate.set()
    await slow.settle()
    assert slow.alarms.lag == 3_000
    await slow.advance(999)
    assert slow.alarms.lag == 3_000
    await slow.advance(1)
    assert slow.alarms.lag == 0


async def test_a_job_waits_in_line_once() -> None:
    """Whatever else rings it meanwhile (the sweep): one turn sees all that is due."""
    slow = Slow()
    await slow.hold(*(f"job{number}" for number in range(RINGS_AT_ONCE)), "late")
    await slow.advance(10)
    await asyncio.gather(slow.alarms.ring("late"), slow.alarms.ring("late"))
    slow.gate.set()
    await slow.settle()
    assert slow.begun.count("late") == 1


async def test_a_ring_during_a_turn_is_not_swallowed() -> None:
    """What became due after the turn looked is looked at by one more."""
    slow = Slow()
    first = asyncio.create_task(slow.alarms.ring("job"))
    await slow.settle()
    second = asyncio.create_task(slow.alarms.ring("job"))
    await slow.settle()
    assert slow.begun == ["job", "job"]
    slow.gate.set()
    await asyncio.gather(first, second)


async def test_who_is_called_off_in_line_can_be_rung_again() -> None:
    """A sweep that ends cancels its rings, and leaves the slots of others alone."""
    slow = Slow()
    await slow.hold(*(f"job{number}" for number in range(RINGS_AT_ONCE)))
    await slow.advance(10)
    waiting = asyncio.create_task(slow.alarms.ring("late"))
    await slow.settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    again = asyncio.create_task(slow.alarms.ring("late"))
    slow.gate.set()
    await again
    assert slow.begun[-1] == "late"


async def test_a_ring_that_fails_gives_its_place_up_and_comes_again() -> None:
    """In a second, behind those that wait."""
    slow = Slow()
    slow.fails = {"job0"}
    await slow.hold(*(f"job{number}" for number in range(RINGS_AT_ONCE + 1)))
    await slow.advance(10)
    slow.gate.set()
    await slow.settle()
    assert slow.begun[-1] == f"job{RINGS_AT_ONCE}"
    slow.fails = set()
    await slow.advance(1_000)
    assert slow.begun[-1] == "job0"


async def test_a_regular_schedule_costs_at_most_one_registration(cluster: DaprHouse) -> None:
    """Every second: one in thirty firings; every minute: one each (DAPR)."""
    await cluster.create("often", timer={"dueTime": "1s", "period": "1s"})
    await cluster.create("seldom", timer={"dueTime": "60s", "period": "60s"})
    start = cluster.world.registrations
    await cluster.advance(60_500)
    assert len(cluster.executions("often")) == 60
    assert cluster.world.registrations - start <= 4
    await cluster.advance(60_000)
    assert len(cluster.executions("seldom")) == 2
    assert cluster.world.registrations - start <= 8
