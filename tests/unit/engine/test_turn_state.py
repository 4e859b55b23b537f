"""A turn's state keeps to the table of states (SPEC section 10)."""

import random

import pytest

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.turn_events import Triggered
from scheduler_service.engine.turn_state import MANY_OPENS, TurnState, replace
from tests.rows import each_row
from tests.unit.engine.rig import START, Rig

S = ExecutionState


def test_a_draft_keeps_to_the_table() -> None:
    """Every change of a state is checked against the table."""
    rig = Rig().create()
    rig.deliver(Triggered(planned_at=START + 5_000))
    turn = TurnState(rig.job, rig.document, rig.now)
    for after in (S.PROCESSING, S.FAILED, S.SUCCEEDED):
        for put in (turn.put, turn.requeue):
            with pytest.raises(AssertionError, match="from scheduled"):
                put(replace(rig.open(1), state=after))
    turn.requeue(replace(rig.open(1), state=S.ENQUEUED))
    assert turn.opens[1].state is S.ENQUEUED


@each_row("seed", range(5))
def test_what_is_open_is_counted(seed: int) -> None:
    """Through every change, as many as there are: a turn over thousands of them counts once."""
    rig = Rig().create()
    for _ in range(3 * MANY_OPENS):
        rig.deliver(Triggered(planned_at=START + 5_000))
    turn, chance = TurnState(rig.job, rig.document, rig.now), random.Random(seed)
    for step in range(200):
        run = chance.choice(list(turn.opens.values()))
        if run.state is S.SCHEDULED:
            turn.requeue(
                replace(run, state=S.ENQUEUED, queued=chance.random() < 0.3, held=chance.random() < 0.3)
            )
        elif run.state is S.ENQUEUED:
            turn.put(replace(run, state=S.PROCESSING))
        elif step > 100 and len(turn.opens) > MANY_OPENS // 2:
            turn.close(run, S.SUCCEEDED)
        runs = turn.opens.values()
        assert turn.count_live() == len(turn.live())
        assert turn.count_queued() == sum(one.state is S.ENQUEUED and not one.held for one in runs)
        assert turn.has_backlog() == any(one.queued for one in runs)
