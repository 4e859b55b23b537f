"""The alarms of the embedded host: a window over the disk, two lines, no firing lost."""

import asyncio
import gc
import sys
from itertools import pairwise

import pytest

from scheduler_service.domain.moments import SECOND, Due
from scheduler_service.hosts.clock import SHARED_BATCH_SIZE
from scheduler_service.hosts.embedded.alarm_queue import BURST
from scheduler_service.hosts.embedded.alarms import (
    COLLECTED_AT_ONCE,
    LONGEST_GATE_MS,
    MOST_COMMITS,
    MOST_EARLY_RINGS,
    MOST_RINGS,
    MOST_SHARED_RINGS,
    SMALLEST_SLICE,
)
from scheduler_service.hosts.embedded.early_commit import TURN_MICROSECONDS
from scheduler_service.pacing.interpreter import FEW
from scheduler_service.ports.state import Commit, StoredJob
from tests.manual_clock import ManualClock
from tests.unit.hosts.embedded.alarm_rig import STEADY, Tower, entry
from tests.unit.hosts.house import SKEW, START, until

pytestmark = pytest.mark.anyio
HOUR = 3_600_000


@pytest.fixture
def tower() -> Tower:
    return Tower()


async def test_what_lies_on_disk_rings_when_it_is_due(tower: Tower) -> None:
    """Both lines; what is overdue at the start rings at once, what is far stays on disk."""
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


@pytest.mark.parametrize("when", [-HOUR, 0], ids=["overdue", "punctual"])
async def test_tenants_take_turns_where_a_burst_is_let_go(when: int) -> None:
    """Thousands of firings of one delay those of another by one each; both in their own order."""
    tower = Tower(ready=100_000)
    crowd = [f"crowd|job{number:04d}" for number in range(2_000)]
    for job_id in (*crowd, "other|a", "other|b", "own"):
        tower.set(job_id, wall=when)
    await tower.alarms.start()
    await until(lambda: len(tower.rung) == 2_003)
    assert max(map(tower.rung.index, ("other|a", "other|b", "own"))) < MOST_SHARED_RINGS
    assert [job_id for job_id in tower.rung if job_id in crowd] == crowd
    await tower.alarms.stop()


async def test_of_several_tenants_few_rings_are_under_way_until_they_are_durable() -> None:
    """Who comes next waits for no more than those; of one tenant alone there are many."""
    tower = Tower(ready=100_000)
    for number in range(3_000):
        tower.set(f"crowd|job{number:04d}", wall=500)
    tower.set("other|job", wall=500)
    await tower.alarms.start()
    await tower.settle()
    tower.send_guard = asyncio.Event()
    usual, rounds = sys.getswitchinterval(), gc.get_threshold()
    await tower.advance(499)
    tower.clock.advance(1)
    begun = [0]
    while len(tower.moments) < MOST_SHARED_RINGS:
        await asyncio.sleep(0)
        begun.append(len(tower.moments))
    turns = [later - earlier for earlier, later in pairwise(begun)]
    assert max(turns) <= SMALLEST_SLICE, "who shares the loop is known when all that is due is collected"
    assert max(turns[-10:]) == SHARED_BATCH_SIZE, "another one's firing waits for them"
    await tower.advance(10)
    assert len(tower.moments) == MOST_SHARED_RINGS
    assert "other|job" in tower.moments
    tower.set("other|next", wall=520)
    await tower.alarms.expect("other|next", tower.disk.jobs["other|next"].due)
    await tower.advance(10)
    assert len(tower.moments) == MOST_SHARED_RINGS + 1
    assert "other|next" in tower.moments, "the crowd's rings under way do not hold up another tenant's"
    assert sys.getswitchinterval() < usual / 10  # else the writer waits for the loop ten times a group
    assert gc.get_threshold()[0] <= FEW < gc.get_threshold()[1], "else a round of the collector takes long"
    tower.send_guard.set()
    while len(tower.rung) < 3_002:
        await tower.advance(10)
    assert sys.getswitchinterval() < usual
    await tower.alarms.stop()
    assert (sys.getswitchinterval(), gc.get_threshold()) == (usual, rounds)


async def test_rounds_of_the_collector_are_short_beside_a_burst_for_ten_seconds() -> None:
    """A load that stays uneven must not keep what only full rounds find; the next burst has them again."""
    tower = Tower(ready=100_000)
    usual, rounds = sys.getswitchinterval(), gc.get_threshold()
    seconds = [*range(1, 14), *range(20, 22)]
    for second in seconds:
        for number in range(2 * BURST):
            tower.set(f"crowd|{second}-{number:04d}", wall=second * SECOND)
        tower.set(f"other|{second}", wall=second * SECOND)
    await tower.alarms.start()
    await tower.settle()
    short, shared = [], []
    for second in range(1, 22):
        await tower.advance(SECOND)
        await until(lambda: tower.alarms.is_settled(0))
        if gc.get_threshold() != rounds:
            short.append(second)
        if sys.getswitchinterval() < usual:
            shared.append(second)
    assert set(range(2, 11)) | {21} <= set(short) <= set(range(1, 12)) | {20, 21}
    assert set(range(2, 14)) | {21} <= set(shared), "others still wait for rounds of the loop"
    await tower.alarms.stop()
    assert (sys.getswitchinterval(), gc.get_threshold()) == (usual, rounds)


async def test_tenants_with_as_much_each_are_not_held_back() -> None:
    """Though the firings of a moment are collected of one tenant after the other."""
    tower = Tower(ready=100_000)
    for number in range(COLLECTED_AT_ONCE - 8):  # so the first look finds 8 of the other one
        tower.set(f"a|job{number:04d}", wall=500)
        tower.set(f"b|job{number:04d}", wall=500)
    await tower.alarms.start()
    await tower.settle()
    tower.send_guard = asyncio.Event()
    await tower.advance(501)
    assert len(tower.moments) > 10 * MOST_SHARED_RINGS
    tower.send_guard.set()
    await until(lambda: len(tower.rung) == 2 * (COLLECTED_AT_ONCE - 8))
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


async def test_no_ring_begins_while_many_turns_wait_for_the_store(tower: Tower) -> None:
    """It would wait as well, with all of an execution in memory; once the store goes on it begins."""
    await wait_behind_many(tower)
    await tower.advance(LONGEST_GATE_MS - 50)
    assert tower.rung == []
    tower.store.release()
    await tower.advance(5)
    assert tower.rung == ["due"]
    await tower.alarms.stop()


async def test_rings_begin_after_a_second_however_many_wait_for_the_store(tower: Tower) -> None:
    """Those that wait may be the writes of many callers, for as long as they go on."""
    await wait_behind_many(tower)
    await tower.advance(LONGEST_GATE_MS + 10)
    assert tower.rung == ["due"]
    await tower.advance(1_000)
    assert tower.rung == ["due", "next"]
    await tower.alarms.stop()


async def wait_behind_many(tower: Tower) -> None:
    """To the moment of `due`, 500 ms; `next` comes at 2,000 ms."""
    tower.set("due", wall=500)
    tower.set("next", wall=2_000)
    await tower.alarms.start()
    await tower.settle()
    tower.store.hold()
    for number in range(MOST_COMMITS):
        tower.store.commit(Commit(entry(f"ends-{number}"), 0, 1, b"", Due()))
    await tower.advance(500)


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


async def test_a_neighbour_begins_early_however_much_of_a_burst_is_due() -> None:
    """Also while all that may wait early is another tenant's."""
    tower = Tower(early_commit=20, burst_lead=500, ready=40_000)
    for n in range(MOST_EARLY_RINGS * 3 // 2):
        tower.set(f"crowd|{n}", wall=5_000)
    for n in range(10):
        tower.set(f"other|{n}", wall=4_900 + 20 * n)
    await tower.alarms.start()
    await tower.advance(4_000)
    tower.send_guard = asyncio.Event()
    await tower.advance(890)  # none of them is due yet
    early = {job_id for job_id in tower.moments if job_id.startswith("other")}
    assert early == {f"other|{n}" for n in range(10)}
    tower.send_guard.set()
    await tower.alarms.stop()


async def test_one_ring_at_a_time_per_job(tower: Tower) -> None:
    """While a ring is under way another one of the same job is left out: that turn sets the alarm anew."""
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


async def test_an_alarm_is_never_lowered_by_an_expectation(tower: Tower) -> None:
    """Before a commit the earlier one of both counts."""
    await tower.alarms.start()
    await tower.settle()
    await tower.alarms.arm("job", Due(START + 1_000, None))
    await tower.alarms.expect("job", Due(START + 5_000, STEADY + 6_000))
    await tower.advance(1_000)
    assert tower.rung == ["job"]
    await tower.alarms.stop()


async def test_what_is_held_in_memory_rings_however_far_it_is(tower: Tower) -> None:
    """An alarm that is not on disk is not forgotten beyond the window."""
    await tower.alarms.start()
    await tower.settle()
    await tower.alarms.hold("job", Due(None, STEADY + HOUR))
    await tower.alarms.arm("other", Due(None, STEADY + HOUR))
    await tower.advance(HOUR)
    assert tower.rung == ["job"]
    await tower.alarms.stop()


async def test_a_clock_set_forward_rings_what_it_passed_over(tower: Tower) -> None:
    """A step only means that the wake-up is computed anew; the steady line does not notice."""
    tower.set("wall", wall=HOUR)
    tower.set("steady", steady=HOUR)
    await tower.alarms.start()
    await tower.settle()
    tower.clock.step_wall(HOUR)
    await tower.advance(2_000)
    assert tower.rung == ["wall"]
    assert "clock_stepped" in tower.log
    await tower.alarms.stop()


async def test_a_clock_set_back_delays_the_wall_line_alone(tower: Tower) -> None:
    """Waits keep what is left of them (SPEC section 3, "Clock")."""
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


async def test_again_is_in_a_second(tower: Tower) -> None:
    """A job of which nobody knows how it stands is looked at in a second, not in a circle."""
    await tower.alarms.start()
    await tower.settle()
    await tower.alarms.expect("job", Due(START, STEADY))
    tower.alarms.again("job")
    await tower.advance(999)
    assert tower.rung == []
    await tower.advance(1)
    assert tower.rung == ["job"]
    await tower.alarms.stop()


async def test_draining_takes_no_firing(tower: Tower) -> None:
    """While a node stops, limits and checks still ring, firings do not (SPEC section 14)."""
    await tower.alarms.start()
    await tower.settle()
    tower.alarms.drain()
    await tower.alarms.arm("firing", Due(START + 100, None))
    await tower.alarms.arm("limit", Due(None, STEADY + 100))
    await tower.advance(3_000)
    assert tower.rung == ["limit"]
    await tower.alarms.stop()


class FaultyClock(ManualClock):
    """Fails once, the next time that somebody asks it for a step."""

    is_faulty = False

    async def follow(self) -> bool:
        if self.is_faulty:
            self.is_faulty = False
            raise ArithmeticError("nobody has thought of this")
        return await super().follow()


async def test_ringing_goes_on_after_a_defect() -> None:
    """What was due meanwhile rings a second later, once, and the log has the defect."""
    clock = FaultyClock(wall=START, skew=SKEW)
    tower = Tower(clock=clock)
    tower.set("before", wall=500)
    tower.set("during", wall=2_500)
    tower.set("after", wall=9_000)
    await tower.alarms.start()
    await tower.advance(1_500)
    clock.is_faulty = True
    await tower.advance(SECOND)
    assert tower.log == ["task_failed"]
    await tower.advance(2 * SECOND)
    assert tower.rung == ["before", "during"]
    await tower.advance(6 * SECOND)
    assert tower.rung == ["before", "during", "after"]
    assert tower.log == ["task_failed"]
    await tower.alarms.stop()


async def test_reading_goes_on_after_a_defect(tower: Tower) -> None:
    """Due times beyond the first window are read though one reading met a defect."""

    async def fail_once() -> None:
        tower.store.during_read = None
        raise ArithmeticError("nobody has thought of this")

    tower.set("far", wall=60 * SECOND)
    await tower.alarms.start()
    await tower.settle()
    tower.store.during_read = fail_once
    await tower.advance(61 * SECOND)
    assert tower.log == ["task_failed"]
    assert tower.rung == ["far"]
    await tower.alarms.stop()
