"""Rings of the dapr host under load: what daprd cannot take yet waits here, once a job."""

import asyncio
from typing import Any

import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.hosts.dapr.reminders import (
    GUARDS_AFTER_MS,
    GUARDS_SPREAD_MS,
    NEAR_MS,
    RINGS_AT_ONCE,
    ReminderAlarms,
)
from scheduler_service.ports.errors import StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import SKEW, START

pytestmark = pytest.mark.anyio
LATEST_GUARD_MS = GUARDS_AFTER_MS + GUARDS_SPREAD_MS


class Reminders:
    """What the scheduler service has; `gate` holds registrations back. A ring does not come from here."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[tuple[int, str]] = []
        self.set: dict[str, int] = {}
        self.removed: list[str] = []

    async def remind(self, job_id: str, pause: int) -> None:
        """Registers or replaces one."""
        moment = self.clock.now().wall
        self.asked.append((moment, job_id))
        await self.gate.wait()
        self.set[job_id] = moment + pause

    async def forget_reminder(self, job_id: str) -> None:
        """Removes it."""
        self.removed.append(job_id)
        self.set.pop(job_id, None)


class Slow:
    """Turns that last until the gate opens; `fails` are those that then end in an error."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=START, skew=SKEW)
        self.gate = asyncio.Event()
        self.begun: list[str] = []
        self.fails: set[str] = set()
        self.reminders = Reminders(self.clock)
        sidecar: Any = self.reminders
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


@pytest.fixture
def slow() -> Slow:
    return Slow()


async def test_a_herd_waits_here_and_not_in_the_sidecar(slow: Slow) -> None:
    """No more at once than daprd lets run; in order, each once, none forgotten."""
    jobs = [f"job{number}" for number in range(3 * RINGS_AT_ONCE)]
    await slow.hold(*jobs)
    await slow.advance(10)
    assert slow.begun == jobs[:RINGS_AT_ONCE]
    assert RINGS_AT_ONCE < 100
    slow.gate.set()
    await slow.settle()
    assert slow.begun == jobs
    assert not slow.alarms.is_ringing


async def test_rings_say_by_how_much_they_are_late(slow: Slow) -> None:
    """Those that waited for their turn, until none was late for a second; small delays say nothing."""
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


async def test_what_an_outage_held_up_says_nothing_of_the_rings_to_come(slow: Slow) -> None:
    """Else the sweep would wait for jobs by as much as the outage lasted; a herd after it counts as ever."""
    slow.gate.set()
    await slow.alarms.expect("job", Due(START + 40_000, None))
    await slow.alarms.expect("other", Due(START + 45_000, None))
    await slow.advance(65_000)
    slow.alarms.rang("job")
    assert slow.alarms.lag > 0
    slow.alarms.excuse(slow.clock.now().steady)
    assert slow.alarms.lag == 0
    slow.alarms.rang("other")
    assert slow.alarms.lag == 0
    await slow.alarms.expect("later", Due(slow.clock.now().wall + 40_000, None))
    await slow.advance(43_000)
    slow.alarms.rang("later")
    assert slow.alarms.lag == 3_000


async def test_a_job_waits_in_line_once(slow: Slow) -> None:
    """Whatever else rings it meanwhile (the sweep): one turn sees all that is due."""
    await slow.hold(*(f"job{number}" for number in range(RINGS_AT_ONCE)), "late")
    await slow.advance(10)
    await asyncio.gather(slow.alarms.ring("late"), slow.alarms.ring("late"))
    slow.gate.set()
    await slow.settle()
    assert slow.begun.count("late") == 1


async def test_a_ring_during_a_turn_is_not_swallowed(slow: Slow) -> None:
    """What became due after the turn looked is looked at by one more."""
    first = asyncio.create_task(slow.alarms.ring("job"))
    await slow.settle()
    second = asyncio.create_task(slow.alarms.ring("job"))
    await slow.settle()
    assert slow.begun == ["job", "job"]
    slow.gate.set()
    await asyncio.gather(first, second)


async def test_who_is_called_off_in_line_can_be_rung_again(slow: Slow) -> None:
    """A sweep that ends cancels its rings, and leaves the slots of others alone."""
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


async def test_a_ring_that_fails_gives_its_place_up_and_comes_again(slow: Slow) -> None:
    """In a second, behind those that wait."""
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


async def test_jobs_that_fire_together_do_not_register_together() -> None:
    """Their guards come one after the other, each within ten seconds."""
    slow, due = Slow(), Due(START + 1_000, None)
    jobs = [f"job{number}" for number in range(500)]
    for job in jobs:
        await slow.alarms.expect(job, due)
        await slow.alarms.arm(job, due)
    await slow.advance(1_000 + GUARDS_AFTER_MS)
    assert slow.reminders.asked == [], "no turn waits for a guard, and what ends soon needs none"
    for _ in range(GUARDS_SPREAD_MS // 100):
        await slow.advance(100)
    assert sorted(job for _, job in slow.reminders.asked) == sorted(jobs)
    seconds = [(at - START) // 1_000 for at, _ in slow.reminders.asked]
    assert max(seconds.count(second) for second in set(seconds)) < len(jobs) // 5
    assert all(slow.reminders.set[job] - at == NEAR_MS for at, job in slow.reminders.asked)


async def test_a_guard_that_is_set_is_not_set_again(slow: Slow) -> None:
    """However often the job is armed, until it has rung; then it has another one."""
    for pause in (0, LATEST_GUARD_MS, 5_000, 1_000, 1_000):
        await slow.advance(pause)
        await slow.alarms.arm("job", Due(slow.clock.now().wall + 5_000, None))
    assert len(slow.reminders.asked) == 1
    slow.alarms.rang("job")
    await slow.alarms.arm("job", Due(slow.clock.now().wall + 5_000, None))
    await slow.advance(5_000 + LATEST_GUARD_MS)
    assert len(slow.reminders.asked) == 2


@pytest.mark.parametrize("job", ["ended", "moved", "left"])
async def test_who_is_done_soon_registers_nothing(job: str, slow: Slow) -> None:
    """Neither a job that ends, nor one that leaves, nor a node that stops; and nothing is removed."""
    slow.gate.set()
    await slow.alarms.arm(job, Due(START + 5_000, None))
    await slow.advance(5_000)
    match job:
        case "ended":
            await slow.alarms.arm(job, Due())
        case "moved":
            slow.alarms.forget(job)
        case _:
            await slow.alarms.stop()
    await slow.advance(2 * LATEST_GUARD_MS)
    assert (slow.reminders.asked, slow.reminders.removed) == ([], [])


async def test_a_node_that_stops_waits_for_a_registration() -> None:
    """One that dies does not."""
    for end in ("stop", "cancel"):
        slow = Slow()
        slow.reminders.gate.clear()
        await slow.alarms.arm("job", Due(START, None))
        await slow.advance(LATEST_GUARD_MS)
        ending = asyncio.create_task(slow.alarms.stop() if end == "stop" else slow.alarms.cancel())
        slow.gate.set()
        await slow.settle()
        assert ending.done() == (end == "cancel")
        slow.reminders.gate.set()
        await ending
        await slow.settle()
        assert list(slow.reminders.set) == (["job"] if end == "stop" else [])


async def test_what_is_far_is_registered_before_the_commit(slow: Slow) -> None:
    """And takes the place of a guard that waits to be set."""
    await slow.alarms.arm("job", Due(START + 5_000, None))
    await slow.alarms.expect("job", Due(START + 600_000, None))
    assert slow.reminders.set == {"job": START + 600_000}
    await slow.advance(LATEST_GUARD_MS)
    assert len(slow.reminders.asked) == 1


@pytest.mark.parametrize("then", [None, START + 600_000])
async def test_a_guard_under_way_is_waited_for(then: int | None, slow: Slow) -> None:
    """Of two at once nobody would know which one the scheduler service has. One that is early may ring."""
    slow.reminders.gate.clear()
    await slow.alarms.arm("job", Due(START, None))
    await slow.advance(LATEST_GUARD_MS)
    assert len(slow.reminders.asked) == 1
    armed = asyncio.create_task(slow.alarms.arm("job", Due(then, None)))
    await slow.settle()
    assert len(slow.reminders.asked) == 1
    assert not armed.done()
    slow.reminders.gate.set()
    await armed
    assert len(slow.reminders.asked) == 1
    assert slow.reminders.set == ({} if then is None else {"job": slow.clock.now().wall + NEAR_MS})
