"""The alarms of the embedded host: a window over the disk, two lines, no firing lost."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.hosts.clock import ManualClock
from scheduler_service.hosts.embedded.alarm_queue import AlarmQueue
from scheduler_service.hosts.embedded.alarms import MOST_EARLY_RINGS, MOST_RINGS, EmbeddedAlarms
from scheduler_service.hosts.embedded.due_window import WIDTH_MS
from scheduler_service.hosts.embedded.early_commit import TURN_MICROSECONDS, EarlyCommit
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.state import StoredJob
from tests.unit.hosts.house import SKEW, START, until
from tests.unit.hosts.memory_store import Disk, MemoryStore

pytestmark = pytest.mark.anyio

STEADY = START - SKEW
HOUR = 3_600_000


class Tower:
    """Alarms over a disk of due times; a ring is written down and leaves the job without an alarm."""

    def __init__(
        self,
        *,
        ready: int = 1_000,
        early_commit: int = 0,
        burst_lead: int = 0,
        spent: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.disk = Disk()
        self.store = MemoryStore(self.disk, [])
        self.clock = ManualClock(wall=START, skew=SKEW)
        self.rung: list[str] = []
        self.moments: dict[str, int | None] = {}
        self.log: list[str] = []
        self.send_guard: asyncio.Event | None = None
        self.alarms = EmbeddedAlarms(
            store=self.store,
            clock=self.clock,
            ring=self._ring,
            log=self._write,
            ready=ready,
            early_commit=EarlyCommit(usual=early_commit, longest=burst_lead),
            elapsed=spent,
        )

    def set(self, job_id: str, wall: int | None = None, steady: int | None = None) -> Due:
        """Writes an alarm to the disk; moments count from now."""
        due = Due(None if wall is None else START + wall, None if steady is None else STEADY + steady)
        self.disk.jobs[job_id] = StoredJob(entry(job_id), 1, b"", due)
        return due

    async def advance(self, pause: int) -> None:
        """The clock runs on, from call to call."""
        end = self.clock.now().steady + pause
        while (left := end - self.clock.now().steady) > 0:
            step = self.clock.next_call()
            self.clock.advance(left if step is None else min(max(step, 1), left))
            await self.settle()

    async def settle(self) -> None:
        """Everything that can go on does."""
        for _ in range(60):
            await asyncio.sleep(0)

    async def _ring(self, job_id: str, moment: int | None) -> None:
        self.moments[job_id] = moment
        if self.send_guard is not None:
            await self.send_guard.wait()
        self.rung.append(job_id)
        self.set(job_id)
        await self.alarms.arm(job_id, Due())

    def _write(self, event: str, /, **keys: object) -> None:
        self.log.append(event)


def entry(job_id: str, **members: Any) -> CatalogueEntry:
    """A line of the catalogue that says nothing."""
    values: dict[str, Any] = {
        "job_id": job_id, "uid": job_id, "tenant": "default", "job_name": "", "object_id": None,
        "creator": "", "kind": "cron", "state": JobState.ACTIVE, "revision": 1, "labels": {},
        "parent_job": None, "parent_execution": None, "next_fire": None, "execute_number": 0,
        "request_counts": 0, "missed": 0, "latest": b"null", "created_at": 0, "updated_at": 0,
    }  # fmt: skip
    return CatalogueEntry(**values | members)


async def test_what_lies_on_disk_rings_when_it_is_due() -> None:
    """Both lines; what is overdue at the start rings at once, what is far stays on disk."""
    tower = Tower()
    tower.set("overdue", wall=-HOUR)
    tower.set("late", steady=-5)
    tower.set("soon", wall=500)
    tower.set("then", steady=1_500)
    tower.set("far", wall=HOUR)
    await tower.alarms.start()
    await tower.settle()
    assert sorted(tower.rung) == ["late", "overdue"]
    assert len(tower.alarms) == 2, "what is far costs a row on disk, not memory"
    await tower.advance(500)
    assert tower.rung[2:] == ["soon"]
    await tower.advance(1_000)
    assert tower.rung[3:] == ["then"]
    await tower.advance(HOUR - 1_501)
    assert tower.rung[4:] == []
    await tower.advance(1)
    assert tower.rung[4:] == ["far"]
    await tower.alarms.stop()


async def test_nothing_falls_between_a_reading_and_a_turn() -> None:
    """The window is raised before it is read: what is committed meanwhile is in memory."""
    tower = Tower()
    await tower.alarms.start()
    await tower.settle()

    async def commit_meanwhile() -> None:
        tower.store.during_read = None
        due = Due(START + WIDTH_MS + 5_000, None)
        await tower.alarms.expect("between", due)
        tower.disk.jobs["between"] = StoredJob(entry("between"), 1, b"", due)
        await tower.alarms.arm("between", due)

    tower.store.during_read = commit_meanwhile
    await tower.advance(WIDTH_MS + 5_000)
    assert tower.rung == ["between"]
    await tower.alarms.stop()


async def test_a_reading_that_is_cut_short_lowers_the_window_afterwards() -> None:
    """More alarms than a page: the rest is read when there is room, in order, and none is left out."""
    tower = Tower(ready=80)
    names = [f"job{number:03d}" for number in range(200)]
    for number, name in enumerate(names):
        tower.set(name, wall=1_000 + number)
    await tower.alarms.start()
    await tower.settle()
    assert len(tower.alarms) <= 40
    await tower.advance(5_000)
    assert sorted(tower.rung) == names
    assert len(tower.rung) == len(names)
    await tower.alarms.stop()


async def test_a_page_of_one_moment_does_not_stop_the_reading() -> None:
    """More alarms of one millisecond than a page holds."""
    tower = Tower(ready=80)
    for number in range(150):
        tower.set(f"job{number:03d}", wall=1_000)
    await tower.alarms.start()
    await tower.settle()
    assert tower.store.reads < 10, "one moment that fills a page is not read in a circle"
    await tower.advance(10_000)
    assert len(set(tower.rung)) == 150
    await tower.alarms.stop()


async def test_a_backlog_does_not_hold_up_what_is_on_time() -> None:
    """Overdue and punctual firings are drained in turn."""
    ticks = iter(range(1_000_000))
    tower = Tower(ready=100_000, spent=lambda: float(next(ticks)))
    for number in range(2_000):
        tower.set(f"old{number:04d}", wall=-HOUR)
    tower.set("punctual", wall=0)
    tower.disk.jobs["punctual"] = StoredJob(entry("punctual"), 1, b"", Due(START, None))
    await tower.alarms.start()
    await tower.settle()
    await until(lambda: len(tower.rung) == 2_001)
    assert tower.rung.index("punctual") < 1_000
    await tower.alarms.stop()


async def test_a_wall_moment_is_rung_ahead_of_itself() -> None:
    """Up to `early_commit` ms, and told; what waits on the steady line is not (docs/decisions/0017)."""
    tower = Tower(early_commit=20)
    tower.set("overdue", wall=-HOUR)
    tower.set("soon", wall=500)
    tower.set("limit", steady=500)
    await tower.alarms.start()
    await tower.advance(479)
    assert tower.rung == ["overdue"]
    await tower.advance(1)
    assert tower.rung == ["overdue", "soon"]
    await tower.advance(20)
    assert tower.rung == ["overdue", "soon", "limit"]
    assert tower.moments == {"overdue": None, "soon": START + 500, "limit": None}
    await tower.alarms.stop()


async def test_a_crowd_is_rung_as_far_ahead_as_its_turns_take() -> None:
    """And what is due by itself after it is not (docs/decisions/0017)."""
    tower = Tower(early_commit=20, burst_lead=500, ready=10_000)
    crowd = [f"job-{n}" for n in range(1_000)]
    for job_id in crowd:
        tower.set(job_id, wall=5_000)
    tower.set("after", wall=5_030)
    await tower.alarms.start()
    ahead = len(crowd) * TURN_MICROSECONDS // 1_000
    await tower.advance(5_000 - ahead - 1)
    assert tower.rung == []
    await tower.advance(1)
    assert sorted(tower.rung) == sorted(crowd)
    await tower.advance(ahead + 9)
    assert "after" not in tower.rung
    await tower.advance(1)
    assert tower.rung[-1] == "after"
    await tower.alarms.stop()


async def test_a_crowd_that_waits_for_its_moment_holds_up_no_limit() -> None:
    """Rings ahead of their moment do not count among those that are under way."""
    tower = Tower(early_commit=20, burst_lead=500, ready=10_000)
    for n in range(MOST_RINGS * 2):
        tower.set(f"job-{n}", wall=5_000)
    await tower.alarms.start()
    await tower.advance(4_000)
    tower.send_guard = asyncio.Event()
    await tower.advance(900)
    assert len(tower.moments) == MOST_RINGS * 2
    await tower.alarms.arm("limit", Due(None, tower.clock.now().steady))
    await tower.settle()
    assert tower.moments["limit"] is None
    tower.send_guard.set()
    await tower.alarms.stop()


async def test_no_more_than_some_wait_for_their_moment() -> None:
    """Each keeps some kilobytes; the others are rung at their moment, or as soon as there is room."""
    tower = Tower(early_commit=20, burst_lead=2_000, ready=40_000)
    for n in range(MOST_EARLY_RINGS * 3 // 2):
        tower.set(f"job-{n}", wall=5_000)
    await tower.alarms.start()
    await tower.advance(4_000)
    tower.send_guard = asyncio.Event()
    await tower.advance(999)
    early = len(tower.moments)
    assert MOST_EARLY_RINGS <= early < MOST_EARLY_RINGS * 5 // 4
    await tower.advance(1)
    assert len(tower.moments) > early
    tower.send_guard.set()
    await until(lambda: len(tower.rung) == MOST_EARLY_RINGS * 3 // 2)
    await tower.alarms.stop()


async def test_one_ring_at_a_time_per_job() -> None:
    """While a ring is under way another one of the same job is left out: that turn sets the alarm anew."""
    tower = Tower()
    await tower.alarms.start()
    await tower.settle()
    tower.send_guard = asyncio.Event()
    await tower.alarms.arm("job", Due(START, None))
    await tower.settle()
    await tower.alarms.arm("job", Due(START, None))
    await tower.settle()
    tower.send_guard.set()
    await tower.settle()
    assert tower.rung == ["job"]
    await tower.alarms.stop()


async def test_an_alarm_is_never_lowered_by_an_expectation() -> None:
    """Before a commit the earlier one of both counts."""
    tower = Tower()
    await tower.alarms.start()
    await tower.settle()
    await tower.alarms.arm("job", Due(START + 1_000, None))
    await tower.alarms.expect("job", Due(START + 5_000, STEADY + 6_000))
    await tower.advance(1_000)
    assert tower.rung == ["job"]
    await tower.alarms.stop()


async def test_what_is_held_in_memory_rings_however_far_it_is() -> None:
    """An alarm that is not on disk is not forgotten beyond the window."""
    tower = Tower()
    await tower.alarms.start()
    await tower.settle()
    await tower.alarms.hold("job", Due(None, STEADY + HOUR))
    await tower.alarms.arm("other", Due(None, STEADY + HOUR))
    await tower.advance(HOUR)
    assert tower.rung == ["job"]
    await tower.alarms.stop()


async def test_a_clock_set_forward_rings_what_it_passed_over() -> None:
    """A step only means that the wake-up is computed anew; the steady line does not notice."""
    tower = Tower()
    tower.set("wall", wall=HOUR)
    tower.set("steady", steady=HOUR)
    await tower.alarms.start()
    await tower.settle()
    tower.clock.step_wall(HOUR)
    await tower.advance(2_000)
    assert tower.rung == ["wall"]
    assert "clock_stepped" in tower.log
    await tower.alarms.stop()


async def test_a_clock_set_back_delays_the_wall_line_alone() -> None:
    """Waits keep what is left of them (SPEC section 3, "Clock")."""
    tower = Tower()
    tower.set("wall", wall=5_000)
    tower.set("steady", steady=5_000)
    await tower.alarms.start()
    await tower.settle()
    tower.clock.step_wall(-10_000)
    await tower.advance(5_000)
    assert tower.rung == ["steady"]
    await tower.advance(10_000)
    assert tower.rung == ["steady", "wall"]
    await tower.alarms.stop()


async def test_a_store_that_is_away_is_asked_again() -> None:
    """A reading that fails takes the horizon back: nothing is thought to be known that is not."""
    tower = Tower()
    tower.store.is_down = True
    tower.set("job", wall=3_000)
    await tower.alarms.start()
    await tower.advance(2_000)
    assert "alarms_unread" in tower.log
    tower.store.is_down = False
    await tower.advance(2_000)
    assert tower.rung == ["job"]
    await tower.alarms.stop()


async def test_again_is_in_a_second() -> None:
    """A job of which nobody knows how it stands is looked at in a second, not in a circle."""
    tower = Tower()
    await tower.alarms.start()
    await tower.settle()
    await tower.alarms.expect("job", Due(START, STEADY))
    tower.alarms.again("job")
    await tower.advance(999)
    assert tower.rung == []
    await tower.advance(1)
    assert tower.rung == ["job"]
    await tower.alarms.stop()


async def test_draining_takes_no_firing() -> None:
    """While a node stops, limits and checks still ring, firings do not (SPEC section 14)."""
    tower = Tower()
    await tower.alarms.start()
    await tower.settle()
    tower.alarms.drain()
    await tower.alarms.arm("firing", Due(START + 100, None))
    await tower.alarms.arm("limit", Due(None, STEADY + 100))
    await tower.advance(3_000)
    assert tower.rung == ["limit"]
    await tower.alarms.stop()


def test_a_line_holds_one_place_per_job_however_often_it_moves() -> None:
    """A moment that moves to later costs nothing until the earlier one is reached."""
    queue = AlarmQueue()
    for moment in range(10, 1_000):
        queue.put("job", moment)
    assert queue.next() == 10
    assert queue.pop(500) is None
    assert queue.next() == 999
    queue.put("job", 700)
    assert queue.pop(2_000) == (700, "job")
    assert queue.pop(2_000) is None
    assert queue.next() is None


def test_a_line_names_what_rings_between_two_moments() -> None:
    """Neither what is due, nor what is later, was moved or dropped; at most as many as are asked for."""
    queue = AlarmQueue()
    for moment in (9, 3, 7, 5, 1, 8, 2, 6, 4):
        queue.put(f"job-{moment}", moment)
    queue.put("job-4", 40)
    queue.drop("job-5")
    assert queue.between(2, 7, 100) == [(3, "job-3"), (6, "job-6"), (7, "job-7")]
    assert len(queue.between(2, 7, 2)) == 2
    assert queue.between(9, 30, 100) == []
