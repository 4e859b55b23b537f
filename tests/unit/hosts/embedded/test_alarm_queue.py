"""The near alarms of one time line in memory."""

import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.hosts.embedded.alarm_queue import BURST, WIDTH_MS, AlarmQueue, Neighbours
from scheduler_service.ports.state import StoredJob
from tests.unit.hosts.embedded.alarm_rig import Tower, entry
from tests.unit.hosts.house import START

pytestmark = pytest.mark.anyio


@pytest.fixture
def neighbours() -> Neighbours:
    return Neighbours()


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


async def test_a_store_that_is_away_is_asked_again() -> None:
    """A reading that fails takes the horizon back: nothing is thought to be known that is not."""
    tower = Tower()
    tower.store.is_down = True
    tower.set("job", wall=3_000)
    await tower.alarms.start()
    await tower.advance(2_000)
    assert "alarms_not_read" in tower.log
    tower.store.is_down = False
    await tower.advance(2_000)
    assert tower.rung == ["job"]
    await tower.alarms.stop()


@pytest.mark.parametrize(
    ("counts", "is_burst"),
    [
        ({"a": 10_000}, False),
        ({"a": 10_000, "b": 1}, True),
        ({"a": 5_000, "b": 5_000}, False),
        ({"a": 5_000, "b": 700, "c": 5_000}, False),
        ({"a": 5_000, "b": 600, "c": 5_000}, True),
        ({"a": 250, "b": 1}, False),
    ],
)
def test_a_burst_is_one_beside_a_tenant_with_far_less(
    counts: dict[str, int], is_burst: bool, neighbours: Neighbours
) -> None:
    """Tenants with as much each take turns, and one alone has nobody beside it."""
    neighbours.counts.update(counts)
    assert neighbours.is_burst(0, waiting=0) is is_burst


def test_a_burst_lasts_until_what_it_began_is_let_go(neighbours: Neighbours) -> None:
    """And a second, for what is under way; who has as much by then ends it at once."""
    neighbours.counts.update({"a": 10_000, "b": 1})
    for now in range(0, 20_001, 10):
        neighbours.counts = {"a": 10_000, "b": 1}
        assert neighbours.is_burst(now, waiting=5_000)
    assert neighbours.is_burst(21_000, waiting=BURST)
    assert not neighbours.is_burst(22_000, waiting=BURST)
    neighbours.counts.update({"a": 10_000, "b": 1})
    assert neighbours.is_burst(30_000, waiting=5_000)
    neighbours.counts = {"a": 10_000, "b": 10_001}
    assert not neighbours.is_burst(30_050, waiting=5_000)


def test_who_has_fired_once_is_no_neighbour_for_ever(neighbours: Neighbours) -> None:
    """Though many of another tenant wait all the time, as they do where it fires thousands a second."""
    found = []
    for now in range(0, 20_000, 10):
        counts = neighbours.counts
        counts["a"] = counts.get("a", 0) + 20
        if now == 1_000:
            counts["b"] = 1
        found.append(neighbours.is_burst(now, waiting=5_000))
    assert not any(found[:100])
    assert any(found)
    assert not any(found[1_000:])
