"""The clock: its steps, who keeps it right, and others."""

import time

from scheduler_service.app.doctor.clock import judge_difference, judge_step
from tests.unit.app.doctor.subjects import states


def test_a_step_of_the_wall_clock_is_a_warning() -> None:
    """In either direction, with its size."""
    assert states(judge_step(0.001))["step"] == "ok"
    assert states(judge_step(-2.5))["step"] == "warning"
    assert any("-2.50 s" in one.detail for one in judge_step(-2.5))


def test_clocks_that_differ_are_a_warning() -> None:
    """More than a second, beside what the other one leaves out."""
    now = time.time()
    assert states([judge_difference("x", now)]) == {"x": "ok"}
    assert states([judge_difference("x", now - 30)]) == {"x": "warning"}
    assert states([judge_difference("x", now + 30)]) == {"x": "warning"}
    assert states([judge_difference("x", float(int(now)), resolution=1.0)]) == {"x": "ok"}
