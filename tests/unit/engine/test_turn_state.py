"""A turn's state keeps to the table of states (SPEC section 10)."""

import pytest

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.engine.turn_state import TurnState, replace
from tests.unit.engine.rig import START, Rig

S = ExecutionState


def test_a_draft_keeps_to_the_table() -> None:
    """Every change of a state is checked against the table."""
    rig = Rig().create()
    rig.deliver(Triggered(planned_at=START + 5_000))
    assert rig.document is not None
    turn = TurnState(rig.job, rig.document, rig.now)
    for after in (S.PROCESSING, S.FAILED, S.SUCCEEDED):
        for put in (turn.put, turn.requeue):
            with pytest.raises(AssertionError, match="from scheduled"):
                put(replace(rig.open(1), state=after))
    turn.requeue(replace(rig.open(1), state=S.ENQUEUED))
    assert turn.opens[1].state is S.ENQUEUED
