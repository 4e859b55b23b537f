"""The verdict of a check or of feedback replaces an answer (SPEC section 5)."""

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.wire import FaultKind
from tests.rows import each_row
from tests.unit.engine.asynchronous import feedback, started


@each_row("kind", [FaultKind.CONNECT, FaultKind.TIMEOUT])
def test_verdict_stands_in_for_the_last_answer(kind: FaultKind) -> None:
    """If the last step got no answer, the verdict by feedback replaces it."""
    rig = started()
    feedback(rig, {"status": "succeed"})
    rig.fault(kind)
    assert rig.states() == [ExecutionState.SUCCEEDED]


def test_verdict_does_not_stand_in_for_an_earlier_step() -> None:
    """Only the last step's missing answer is replaced."""
    rig = started(request=[{"url": "http://target.test/1"}, {"url": "http://target.test/2"}])
    feedback(rig, {"status": "succeed"})
    rig.fault()
    assert rig.execution(1).error == "500"
