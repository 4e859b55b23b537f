"""Which actors count as active here, after each word of daprd."""

import pytest

from scheduler_service.hosts.dapr.active_actors import ActiveActors
from scheduler_service.hosts.dapr.liveness import Liveness
from tests.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def active(clock: ManualClock) -> ActiveActors:
    liveness = Liveness(clock=clock)
    liveness.extend(clock.now().steady)
    return ActiveActors(liveness=liveness)


def test_a_turn_of_daprd_says_it(active: ActiveActors) -> None:
    assert "job" not in active
    active.add("job")
    assert "job" in active
    assert "another" not in active


def test_one_that_goes_puts_all_in_doubt(active: ActiveActors) -> None:
    """Until daprd delivers a turn again; the one that went is not active then either."""
    for job_id in ("one", "two", "three"):
        active.add(job_id)
    active.remove("one")
    assert "two" not in active
    active.add("three")
    assert ("one" in active, "two" in active, "three" in active) == (False, True, True)


def test_what_daprd_may_have_let_go_is_gone(active: ActiveActors) -> None:
    active.add("one")
    active.clear()
    active.add("two")
    assert ("one" in active, "two" in active) == (False, True)


def test_a_node_that_stops_has_none_for_good(active: ActiveActors) -> None:
    active.add("one")
    active.close()
    active.add("one")
    assert "one" not in active


def test_a_node_past_its_heartbeat_has_none(active: ActiveActors, clock: ManualClock) -> None:
    active.add("one")
    clock.advance(8_999)
    assert "one" in active
    clock.advance(1)
    assert "one" not in active


def test_what_daprd_has_fewer_of_is_gone(active: ActiveActors) -> None:
    """It let them go without a word; what has come or gone while it was asked says nothing."""
    for job_id in ("one", "two"):
        active.add(job_id)
    active.compare(2, 2)
    active.compare(1, 1)
    assert "one" in active
    active.compare(1, 2)
    assert ("one" in active, "two" in active) == (False, False)
    active.add("one")
    active.compare(1, 2)
    assert "one" in active
