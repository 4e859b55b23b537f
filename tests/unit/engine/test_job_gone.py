"""A target that says that the job is gone (SPEC section 13)."""

from scheduler_service.domain.effects import ResolveInstances
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import Noted
from scheduler_service.domain.turn_events import CallEnded, Paused, Triggered
from scheduler_service.domain.wire import Fault, FaultKind
from tests.rows import each_row
from tests.unit.engine.parts.service_rig import DRAINING, SHARDED, answer, parted, parts_of, steps_of
from tests.unit.engine.rig import Rig

S = ExecutionState


GONE = {"X-Job-State": "gone"}


@each_row("url", ["service://shop/x", "http://target.test/x"])
def test_a_job_that_is_gone_is_paused(url: str) -> None:
    """410 with `X-Job-State: gone`: no retry, the job is paused as `gone`, and the log says so."""
    rig = Rig(request=[{"url": url}], timer={"dueTime": "0s", "period": "10s"}, retry=[{"errorEquals": "*"}])
    rig.create()
    rig.answer(410, headers=GONE)
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.reason) == (S.TERMINATED, "410", "gone")
    assert rig.document is not None
    assert (rig.document.head.active, rig.document.head.pause_reason) == (False, "gone")
    assert rig.of(Noted, rig.records)[-1].kind == "jobGone"
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
    rig.resolve()
    assert rig.execution(1).reason == "gone"
    assert rig.document is not None
    assert rig.document.head.pause_reason != "gone"


def test_one_instance_that_does_not_know_the_job_costs_no_attempt() -> None:
    """In a rolling deploy the newer instance knows it: it gets the same request, in the same attempt."""
    rig = parted({"url": "service://shop/x"}, "old", route="random", qos=1)
    answer(rig, 0, 410, headers=GONE)
    assert rig.of(ResolveInstances, rig.effects)[-1].excluded == ("old",)
    rig.resolve("new")
    assert parts_of(rig)[1].request.headers == parts_of(rig)[0].request.headers
    answer(rig, 1)
    ended = rig.execution(1)
    assert (ended.state, ended.attempt_count, rig.summary.state) == (S.SUCCEEDED, 1, "active")
    assert [note.kind for note in rig.of(Noted, rig.records)] == ["gone"]
    assert [step.instance for step in steps_of(rig)] == ["new"]


def test_the_job_is_paused_when_no_instance_knows_it() -> None:
    """Each is asked once; the last answer is the one of the history."""
    rig = parted({"url": "service://shop/x"}, "a", route="random", retry=[{"errorEquals": "*"}])
    answer(rig, 0, 410, headers=GONE)
    rig.resolve("b")
    answer(rig, 1, 410, {"which": "b"}, headers=GONE)
    assert rig.of(ResolveInstances, rig.effects)[-1].excluded == ("a", "b")
    rig.resolve()
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.reason) == (S.TERMINATED, "410", "gone")
    assert (rig.summary.state, rig.document and rig.document.head.pause_reason) == ("paused", "gone")
    (step,) = steps_of(rig)
    assert (step.instance, step.exchange.status, step.exchange.response_body) == ("b", 410, b'{"which": "b"}')


@each_row("order", [("refuses", "gone"), ("gone", "refuses")])
def test_an_instance_that_was_not_reached_may_know_the_job(order: tuple[str, ...]) -> None:
    """The job is not paused: the attempt fails as any failed connection, and policies retry it."""
    rig = parted({"url": "service://shop/x"}, "a", route="random", retry=[{"errorEquals": "500"}])
    for index, which in enumerate(order):
        if which == "gone":
            answer(rig, index, 410, headers=GONE)
        else:
            fault = Fault(FaultKind.CONNECT, "refused", 3, unsent=True)
            rig.deliver(CallEnded(parts_of(rig)[index].token, fault))
        rig.resolve(*("b",)[: 1 - index])
    assert (rig.states(), rig.summary.state) == ([S.FAILED], "active")
    assert steps_of(rig)[-1].error == "500"


def test_the_answer_of_an_instance_that_drains_afterwards_counts() -> None:
    """What the earlier one said is still known."""
    rig = parted({"url": "service://shop/x"}, "a", route="random")
    answer(rig, 0, 410, headers=GONE)
    rig.resolve("b")
    answer(rig, 1, 503, headers=DRAINING)
    rig.resolve()
    assert rig.execution(1).reason == "gone"


def test_410_that_the_step_takes_for_success_goes_on() -> None:
    """A step that names 410 as a success ends with it, at the first instance."""
    rig = parted({"url": "service://shop/x", "successCodes": [410]}, "a", route="random")
    answer(rig, 0, 410, headers=GONE)
    assert rig.states() == [S.SUCCEEDED]


def test_a_shard_that_is_gone_fails_its_part() -> None:
    """Each instance has a part of its own: the execution fails, the job goes on."""
    rig = parted(SHARDED, "a", "b")
    answer(rig, 0, 410, headers=GONE)
    answer(rig, 1)
    assert (rig.execution(1).error, rig.summary.state) == ("partial", "active")


def test_a_crash_before_the_next_instance_forgets_no_answer() -> None:
    """The search goes on without those that do not know the job; none left, the job is paused."""
    rig = parted({"url": "service://shop/x"}, "a", route="random", qos=1)
    answer(rig, 0, 410, headers=GONE)
    rig.restart()
    assert rig.of(ResolveInstances, rig.effects)[-1].excluded == ("a",)
    rig.resolve("b")
    rig.restart()
    answer(rig, -1, 410, headers=GONE)
    rig.resolve()
    assert rig.execution(1).reason == "gone"
    assert steps_of(rig)[-1].instance == "b"
