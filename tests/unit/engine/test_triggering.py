"""Backfills: past moments of a timer are run, and cost nobody else anything (SPEC section 3)."""

from typing import Any

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import RefusalCode, StartedMany
from scheduler_service.domain.turn_events import Backfilled, Paused, Triggered
from scheduler_service.engine.program import Surroundings
from tests.unit.engine.rig import START, Rig, ticking

S = ExecutionState
PAST = (START - 30_000, START - 20_000, START - 10_000)


def filled(moments: tuple[int, ...] = PAST, surroundings: Surroundings | None = None, **members: Any) -> Rig:
    """A job that ticks every ten seconds, and whose past moments are run."""
    rig = ticking(surroundings, **members)
    rig.deliver(Backfilled(moments))
    return rig


def test_moments_run_in_order_one_after_the_other() -> None:
    rig = filled()
    assert rig.reply == StartedMany(1, PAST, "uid")
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED]
    rig.answer()
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING, S.ENQUEUED]
    second = rig.execution(2)
    assert (second.planned_at, second.triggered_by) == (PAST[1], TriggeredBy.BACKFILL)
    assert rig.ledger() == []
    rig = filled(overlapPolicy="allow")
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED]
    rig.pass_time(10_000)
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED, S.PROCESSING]


def test_a_firing_goes_ahead_of_what_is_left() -> None:
    """With `skip` too, and one alone: who comes after it is skipped as ever."""
    rig = filled()
    rig.pass_time(20_000)
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED, S.ENQUEUED, S.SKIPPED]
    assert rig.execution(5).reason == "overlap"
    rig.answer()
    assert rig.states() == [S.SUCCEEDED, S.ENQUEUED, S.ENQUEUED, S.PROCESSING, S.SKIPPED]
    rig = filled(overlapPolicy="cancel_running")
    rig.pass_time(10_000)
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED, S.ENQUEUED]
    rig = filled(overlapPolicy="queue", queueLimit=1)
    rig.pass_time(20_000)
    assert rig.states()[3:] == [S.ENQUEUED, S.SKIPPED]
    assert rig.execution(5).reason == "queue_full"
    rig = filled()
    rig.deliver(Triggered())
    rig.answer()
    assert rig.states() == [S.SUCCEEDED, S.ENQUEUED, S.ENQUEUED, S.PROCESSING]


def test_a_pause_ends_it() -> None:
    rig = filled()
    rig.deliver(Paused())
    assert rig.states() == [S.CANCELLED] * 3
    # As a trigger runs there
    rig = ticking()
    rig.deliver(Paused())
    rig.deliver(Backfilled(PAST))
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED]


def test_all_are_refused_or_none() -> None:
    """Beyond `limits.pending_triggers`, with parameters that the schema refuses, and of a disabled job."""
    rig = filled(surroundings=Surroundings(pending_triggers=4))
    refusal = rig.refusal(Backfilled(PAST))
    assert (refusal.code, refusal.retry_after) == (RefusalCode.LIMIT, MINUTE), "one runs, and may end soon"
    refusal = rig.refusal(Backfilled(PAST * 2))
    assert (refusal.code, refusal.retry_after) == (RefusalCode.LIMIT, 0), "it never fits"
    assert len(rig.states()) == len(PAST)
    strict = ticking(paramsSchema={"type": "object", "required": ["day"]})
    refusal = strict.refusal(Backfilled(PAST))
    assert (refusal.code, refusal.pointer) == (RefusalCode.INVALID, "/params")
    assert ticking(disabled=True).refusal(Backfilled(PAST)).code is RefusalCode.DISABLED
    rig = filled(())
    assert rig.reply == StartedMany(1, (), "uid")
    assert rig.states() == []
