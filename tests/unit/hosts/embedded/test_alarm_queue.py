"""The near alarms of one time line in memory."""

import pytest

from scheduler_service.hosts.embedded.alarm_queue import AlarmQueue

pytestmark = pytest.mark.anyio


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
