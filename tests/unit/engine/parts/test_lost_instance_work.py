"""What a lost instance had taken in hand ends; what is not its own does not (SPEC section 13)."""

import msgspec

from scheduler_service.domain.document import CheckWaiting, FeedbackAwaited, PartsAwaited
from scheduler_service.domain.effects import Abandon, AbandonPart, Unwatch, WatchInstance
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, Noted
from scheduler_service.domain.registered_services import LEFT, SILENT, UNKNOWN, Loss
from scheduler_service.domain.replies import Taken, Unchanged
from scheduler_service.domain.turn_events import CancelRequested, InstanceLost, Resumed
from scheduler_service.domain.wire import CallKind
from scheduler_service.engine.document_bytes import decode, encode
from tests.rows import each_row
from tests.unit.engine.parts.service_rig import answer, asynchronous, parted, parts_of, report
from tests.unit.engine.rig import Rig

S = ExecutionState
STEP = {"url": "service://shop/run"}
URL = {"body": "${schedulingFeedbackUrl}"}
LOSS = Loss(SILENT, 1_000)
CHECK = {"checkUrl": "http://x.test/check"}


def at_work(**members: object) -> Rig:
    """An asynchronous job whose one instance `a` has taken its work in hand."""
    rig = parted(STEP, "a", route="random", **{"async": True, "qos": 1, **members})
    answer(rig, 0, 202)
    return rig


def chained(*statuses: int, **members: object) -> Rig:
    """An asynchronous chain whose steps before the last went to `a`, `b`, … and were answered so."""
    request = [STEP | dict(given) for given in members.pop("steps", [{}, {}])]  # type: ignore[attr-defined]
    rig = parted(None, "a", route="random", **{"async": True, "request": request, **members})
    for index, status in enumerate(statuses):
        answer(rig, index, status)
        if index + 1 < len(request):
            rig.resolve("abc"[index + 1])
    return rig


def watches(rig: Rig) -> list[WatchInstance]:
    return rig.of(WatchInstance, rig.effects)


def lose(rig: Rig, index: int = 0) -> object:
    """The instance that was watched as the `index`th is lost."""
    return rig.deliver(InstanceLost(watches(rig)[index].token, LOSS)).reply


@each_row(("members", "phase"), [({}, FeedbackAwaited), (CHECK, CheckWaiting)])
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
    assert line.text == ended_message(rig)
    assert line.text.startswith(
        "instance a of service shop is lost: no heartbeat since 1970-01-01T00:00:01.000Z; "
    )
    assert "let a retry policy name instance_lost" in line.text
    assert [one.token for one in rig.of(Unwatch, rig.effects)] == [watch.token]
    assert lose(rig) == Unchanged()


def test_who_has_it_in_hand_is_durable() -> None:
    """After a crash the state names the instance, and the watch begins anew (SPEC section 8)."""
    rig = at_work()
    (stored,) = decode(encode(rig.document)).contexts[1].taken
    assert (stored.step, stored.service, stored.instances) == (0, "shop", ("a",))
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


@each_row("status", ["succeed", "failed"])
def test_a_report_before_the_loss_counts(status: str) -> None:
    """And ends the watch, as every end of the attempt does."""
    rig = at_work()
    assert report(rig, None, status=status) == Taken()
    assert [one.token for one in rig.of(Unwatch, rig.effects)] == [watches(rig)[0].token]
    assert lose(rig) == Unchanged()


@each_row("how", ["limit", "cancelled"])
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
    # Its instance may go
    rig = asynchronous("a", "b")
    report(rig, 0, status="succeed")
    assert lose(rig, 0) == Unchanged()
    report(rig, 1, status="succeed")
    assert rig.states() == [S.SUCCEEDED]
    # Not `partial`: each has failed
    rig = asynchronous("a", "b")
    lose(rig, 0)
    lose(rig, 1)
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("instance_lost", FailureType.LOST)


@each_row("changed", [{"serial": 1}, {"uid": "else"}, {"kind": CallKind.CHECK}])
def test_a_foreign_token_changes_nothing(changed: dict[str, object]) -> None:
    """Of a part that is not there, another life, another kind of call."""
    rig = at_work()
    token = msgspec.structs.replace(watches(rig)[0].token, **changed)
    assert rig.deliver(InstanceLost(token, LOSS)).reply == Unchanged()
    assert rig.states() == [S.PROCESSING]


def test_nothing_is_watched_where_nobody_works_on() -> None:
    """A synchronous job, a step before the last one, an address without heartbeats."""
    synchronous = parted(STEP, "a", route="random")
    answer(synchronous, 0)
    static = parted(STEP, "http://a.test:1", route="random", **{"async": True})
    answer(static, 0, 202)
    assert [watches(rig) for rig in (synchronous, static)] == [[], []]


PLAIN = {"url": "http://x.test"}


@each_row(
    ("steps", "status", "members", "watched"),
    [
        ([{}, PLAIN], 202, {}, True),  # it has accepted the work, and not done it
        ([{}, PLAIN], 202, CHECK, True),
        ([{}, PLAIN], 200, {}, False),  # it has done what it was asked for
        ([URL, PLAIN], 200, {}, True),  # nobody else can report
        ([URL, PLAIN], 200, CHECK, False),  # the check reports
        ([URL, URL], 200, {}, False),  # a later step reports
        ([URL, {}, PLAIN], 200, {}, True),
    ],
)
def test_an_earlier_step_is_in_hand_from_its_answer_on(
    steps: list[dict[str, str]], status: int, members: dict[str, object], watched: bool
) -> None:
    """Where its instance works on after the answer; its loss ends the attempt while a later step runs."""
    rig = chained(status, steps=steps, **members)
    assert [one.instance for one in watches(rig)] == ["a"] * watched
    if watched:
        assert lose(rig) == Taken()
        assert (rig.states(), rig.execution(1).error) == ([S.TERMINATED], "instance_lost")
        assert len([one for one in rig.effects if isinstance(one, Abandon | AbandonPart)]) == 1
        (line,) = [one for one in rig.of(Noted, rig.records) if one.kind == "instance_lost"]
        assert line.step == 0


@each_row("index", [0, 1])
def test_each_that_works_on_is_watched_after_the_chain(index: int) -> None:
    """The loss of any ends the attempt, and with it the watch of the other."""
    rig = chained(202, 202)
    assert [one.instance for one in watches(rig)] == ["a", "b"]
    rig.deliver(Resumed())
    assert [one.token for one in watches(rig)[2:]] == [one.token for one in watches(rig)[:2]]
    assert lose(rig, index) == Taken()
    assert f"instance {'ab'[index]} of service" in ended_message(rig)
    assert {one.token for one in rig.of(Unwatch, rig.effects)} == {one.token for one in watches(rig)}
    assert lose(rig, 1 - index) == Unchanged()


def test_a_retry_from_a_step_begins_at_the_lost_one() -> None:
    """Not at the last one, whose work is of no use without it."""
    retry = [{"errorEquals": "instance_lost", "intervalSeconds": 0}]
    rig = chained(202, 202, steps=[{"retryFrom": "step"}] * 2, retry=retry)
    lose(rig, 0)
    rig.pass_time(1)
    rig.resolve("c")
    assert parts_of(rig)[-1].token.request_counts == 2
    answer(rig, 2, 202)
    assert [(one.instance, one.token.request_counts) for one in watches(rig)[2:]] == [("c", 2)]


def test_a_report_while_the_chain_runs_counts() -> None:
    """The instance may go after it: the verdict decides at the end of the chain (SPEC section 5)."""
    rig = chained(202, steps=[URL, PLAIN])
    assert report(rig, None, status="succeed") == Taken()
    assert lose(rig) == Unchanged()
    rig.answer(200)
    assert rig.states() == [S.SUCCEEDED]
    # The check decides, and asks about work that nobody does any more
    rig = at_work(**CHECK)
    rig.pass_time(1_000)
    report(rig, None, status="succeed")
    assert lose(rig) == Taken()
    assert rig.states() == [S.TERMINATED]


@each_row(
    ("how", "said"),
    [
        (SILENT, "no heartbeat since 1970-01-01T00:00:01.000Z"),
        (LEFT, "it deregistered at 1970-01-01T00:00:01.000Z"),
        (UNKNOWN, "it has not registered since the scheduler started at 1970-01-01T00:00:01.000Z"),
    ],
)
def test_the_message_says_how_it_was_lost(how: str, said: str) -> None:
    """And since when."""
    rig = at_work()
    rig.deliver(InstanceLost(watches(rig)[0].token, Loss(how, 1_000)))
    assert said in ended_message(rig)


def ended_message(rig: Rig) -> str:
    """What the attempt's end says."""
    return str(rig.of(AttemptEnded, rig.records)[-1].message)
