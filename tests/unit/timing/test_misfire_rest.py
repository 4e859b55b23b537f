"""A missed moment whose jitter has not passed yet is not missed (SPEC section 3)."""

from scheduler_service.domain.document import Cursor
from scheduler_service.timing.firings import advance, upcoming
from scheduler_service.timing.misfire import plan
from scheduler_service.timing.timer import TimerText, compile_timer


def test_jitter_keeps_a_firing_from_being_missed() -> None:
    """Jitter is part of the plan: only what was planned before the grace is missed."""
    text = TimerText(due_time="10s", period="10s", jitter=9_000, misfire_grace=0, misfire_policy="skip")
    timer = compile_timer(text, default_zone="UTC")
    cursor = Cursor(0)
    first = upcoming(timer, cursor, "seed")
    assert first is not None
    second = upcoming(timer, advance(cursor, first), "seed")
    assert second is not None
    assert second.planned_at > second.base + 1, "this seed delays the second firing"
    found = plan(timer, cursor, "seed", now=second.base + 1)
    assert found.missed is not None
    assert (found.missed.first, found.missed.last, found.missed.count) == (first.planned_at,) * 2 + (1,)
    assert found.late == ()
    assert upcoming(timer, found.cursor, "seed") == second
