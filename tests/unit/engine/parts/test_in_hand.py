"""What a lost instance had taken in hand ends; what is not its own does not (SPEC section 13)."""

import msgspec
import pytest

from scheduler_service.domain.document import CheckWaiting, FeedbackAwaited, PartsAwaited
from scheduler_service.domain.effects import Call, Unwatch, WatchInstance
from scheduler_service.domain.events import CancelRequested, InstanceLost, Resumed
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import Noted
from scheduler_service.domain.replies import Taken, Unchanged
from scheduler_service.domain.wire import CallKind
from scheduler_service.engine.snapshot import decode, encode
from tests.unit.engine.parts.service_rig import answer, asynchronous, parted, report
from tests.unit.engine.rig import Rig

S = ExecutionState
STEP = {"url": "service://shop/run"}
CHECK = {"checkUrl": "http://x.test/check"}


def at_work(**members: object) -> Rig:
    """An asynchronous job whose one instance `a` has taken its work in hand."""
    rig = parted(STEP, "a", route="random", **{"async": True, "qos": 1, **members})
    answer(rig, 0, 202)
    return rig


def watches(rig: Rig) -> list[WatchInstance]:
    return rig.of(WatchInstance, rig.effects)


def lose(rig: Rig, index: int = 0) -> object:
    """The instance that was watched as the `index`th is lost."""
    return rig.deliver(InstanceLost(watches(rig)[index].token)).reply


@pytest.mark.parametrize(("members", "phase"), [({}, FeedbackAwaited), (CHECK, CheckWaiting)])
def test_its_attempt_ends(members: dict[str, object], phase: type) -> None:
    """Whatever would have reported the outcome; the log says which instance it was."""
    rig = at_work(**members)
    (watch,) = watches(rig)
    assert (watch.tenant, watch.service, watch.instance) == ("default", "shop", "a")
    assert isinstance(rig.document.contexts[1].phase, phase)
    assert lose(rig) == Taken()
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (S.TERMINATED, "instance_lost", FailureType.LOST)
    (line,) = [one for one in rig.of(Noted, rig.records) if one.kind == "instance_lost"]
    assert "instance a of shop" in line.text
    assert [one.token for one in rig.of(Unwatch, rig.effects)] == [watch.token]
    assert lose(rig) == Unchanged()


def test_who_has_it_in_hand_is_durable() -> None:
    """After a crash the state names the instance, and the watch begins anew (SPEC section 8)."""
    rig = at_work()
    stored = decode(encode(rig.document)).contexts[1].in_hand
    assert stored is not None
    assert (stored.service, stored.instances) == ("shop", ("a",))
    rig.deliver(Resumed())
    assert [one.token for one in watches(rig)] == [watches(rig)[0].token] * 2


def test_a_policy_retries_it_and_the_old_watch_does_nothing() -> None:
    """The next attempt has an instance of its own."""
    rig = at_work(retry=[{"errorEquals": "instance_lost"}])
    lose(rig)
    assert rig.states() == [S.FAILED]
    rig.deliver(Resumed())
    assert len(watches(rig)) == 1
    rig.pass_time(1_000)
    rig.resolve("b")
    answer(rig, 1, 202)
    assert [one.instance for one in watches(rig)] == ["a", "b"]
    assert lose(rig, 0) == Unchanged()
    assert rig.states() == [S.PROCESSING]


@pytest.mark.parametrize("status", ["succeed", "failed"])
def test_a_report_before_the_loss_counts(status: str) -> None:
    """And ends the watch, as every end of the attempt does."""
    rig = at_work()
    assert report(rig, None, status=status) == Taken()
    assert [one.token for one in rig.of(Unwatch, rig.effects)] == [watches(rig)[0].token]
    assert lose(rig) == Unchanged()


@pytest.mark.parametrize("how", ["limit", "cancelled"])
def test_other_ends_stop_the_watch(how: str) -> None:
    """A limit, or a cancellation by hand."""
    rig = at_work(timeoutSeconds=60)
    if how == "limit":
        rig.pass_time(60_000)
    else:
        rig.deliver(CancelRequested(1))
    assert len(rig.of(Unwatch, rig.effects)) == 1


def test_a_part_fails_alone() -> None:
    """The parts of living instances are awaited; the end is `partial`."""
    rig = asynchronous("a", "b", qos=1)
    assert isinstance(rig.document.contexts[1].phase, PartsAwaited)
    assert lose(rig, 0) == Taken()
    assert rig.states() == [S.PROCESSING]
    assert report(rig, 1, status="succeed") == Taken()
    assert rig.execution(1).error == "partial"


def test_a_part_that_has_reported_stays() -> None:
    """Its instance may go."""
    rig = asynchronous("a", "b")
    report(rig, 0, status="succeed")
    assert lose(rig, 0) == Unchanged()
    report(rig, 1, status="succeed")
    assert rig.states() == [S.SUCCEEDED]


def test_all_parts_lost_is_that_error() -> None:
    """Not `partial`: each has failed."""
    rig = asynchronous("a", "b")
    lose(rig, 0)
    lose(rig, 1)
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("instance_lost", FailureType.LOST)


@pytest.mark.parametrize("changed", [{"serial": 1}, {"uid": "else"}, {"kind": CallKind.CHECK}])
def test_a_foreign_token_changes_nothing(changed: dict[str, object]) -> None:
    """Of a part that is not there, another life, another kind of call."""
    rig = at_work()
    token = msgspec.structs.replace(watches(rig)[0].token, **changed)
    assert rig.deliver(InstanceLost(token)).reply == Unchanged()
    assert rig.states() == [S.PROCESSING]


def test_nothing_is_watched_where_nobody_works_on() -> None:
    """A synchronous job, a step before the last one, an address without heartbeats."""
    synchronous = parted(STEP, "a", route="random")
    answer(synchronous, 0)
    chain = parted(None, "a", route="random", request=[STEP, {"url": "http://x.test"}], **{"async": True})
    answer(chain, 0)
    assert rig_calls(chain) == 1
    static = parted(STEP, "http://a.test:1", route="random", **{"async": True})
    answer(static, 0, 202)
    assert [watches(rig) for rig in (synchronous, chain, static)] == [[], [], []]


def rig_calls(rig: Rig) -> int:
    """How many requests went to addresses."""
    return len(rig.of(Call, rig.effects))
