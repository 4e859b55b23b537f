"""A target that says that the job is gone (SPEC section 13)."""

import pytest

from scheduler_service.domain.events import Paused, Triggered
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import Noted
from tests.unit.engine.parts.service_rig import answer, parted
from tests.unit.engine.rig import Rig

S = ExecutionState


GONE = {"X-Job-State": "gone"}


@pytest.mark.parametrize("url", ["service://shop/x", "http://target.test/x"])
def test_a_job_that_is_gone_is_paused(url: str) -> None:
    """410 with `X-Job-State: gone`: no retry, the job is paused as `gone`, and the log says so."""
    rig = Rig(request=[{"url": url}], timer={"dueTime": "0s", "period": "10s"}, retry=[{"errorEquals": "*"}])
    rig.create()
    rig.answer(410, headers=GONE)
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.reason) == (S.TERMINATED, "410", "gone")
    assert rig.document is not None
    assert (rig.document.head.active, rig.document.head.pause_reason) == (False, "gone")
    assert [note.kind for note in rig.of(Noted, rig.records)] == ["jobGone"]
    rig.pass_time(60_000)
    assert len(rig.states()) == 1


def test_410_alone_is_an_answer() -> None:
    """Without the header it is a failure like any other."""
    rig = Rig(request=[{"url": "service://shop/x"}], retry=[{"errorEquals": "410"}]).create()
    rig.deliver(Triggered())
    rig.answer(410)
    assert rig.states() == [S.FAILED]
    assert rig.summary.state == "active"


def test_a_gone_job_lets_go_of_what_waits_for_its_timer() -> None:
    """Queued firings are skipped as `gone`; waiting triggers were requested and stay."""
    rig = Rig(timer={"dueTime": "0s", "period": "1s"}, overlapPolicy="queue").create()
    rig.pass_time(1_000)
    rig.deliver(Triggered())
    rig.answer(410, headers=GONE)
    assert rig.execution(2).reason == "gone"
    assert rig.execution(3).state is S.PROCESSING
    assert (1_000, "skipped", "gone") in rig.ledger()


def test_a_gone_job_that_is_paused_stays_as_it_was_paused() -> None:
    """Somebody's pause keeps its reason and its moment."""
    rig = parted({"url": "service://shop/x"}, "a", route="random")
    rig.deliver(Paused(drain=True))
    answer(rig, 0, 410, headers=GONE)
    assert rig.execution(1).reason == "gone"
    assert rig.document is not None
    assert rig.document.head.pause_reason != "gone"
