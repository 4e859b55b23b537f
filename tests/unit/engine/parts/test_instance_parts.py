"""Steps at the instances of a service: one answer, draining instances, reports of parts (SPEC section 13)."""

import json
from typing import Any

from scheduler_service.domain.effects import AbandonPart, MarkDraining, MarkRefused, ResolveInstances
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.moments import DAY
from scheduler_service.domain.records import AttemptEnded, FeedbackSeen, Noted
from scheduler_service.domain.replies import Refusal, RefusalCode, Taken, Unchanged
from scheduler_service.domain.step_parts import PAUSED, WITHDRAWN
from scheduler_service.domain.turn_events import (
    CallEnded,
    CancelRequested,
    FeedbackArrived,
    Triggered,
    Unsent,
)
from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.engine.feedback_url import feedback_token
from tests.rows import each_row
from tests.unit.engine.parts.service_rig import (
    BROADCAST,
    DRAINING,
    SHARDED,
    answer,
    asynchronous,
    parted,
    parts_of,
    report,
    steps_of,
)
from tests.unit.engine.rig import Rig

S = ExecutionState


def test_a_service_step_is_resolved_before_it_is_called() -> None:
    """A step asks for its instances first, with all that routing may look at."""
    rig = (
        Rig(request=[{"url": "service://shop/x", "route": "hash", "tags": ["b", "a", "b"]}])
        .without_instances()
        .triggered()
    )
    search = rig.of(ResolveInstances, rig.effects)[0]
    assert (search.tenant, search.service, search.route) == ("default", "shop", "hash")
    assert (search.tags, search.key, search.single) == (("a", "b"), "job", False)
    assert rig.calls() == []


@each_row("url", ["service:/x", "service://{serviceName}/x", "service://{serviceGateway}/s/x"])
def test_the_owner_and_the_gateway_are_called_directly(url: str) -> None:
    """They have no instances to choose from."""
    rig = Rig(request=[{"url": url}])
    rig.instances = None
    rig.create(restored=True)
    rig.deliver(Triggered())
    assert rig.request.url == url
    assert rig.request.base == ""


def test_one_instance_ends_the_step_as_any_other() -> None:
    """A policy that chooses one: its answer is the step's, and history says whose it was."""
    rig = parted({"url": "service://shop/x", "respEnvName": "A"}, "b", route="random")
    call = parts_of(rig)[0]
    assert (call.instance, call.request.base, call.request.url) == ("b", "http://b.test", "service://shop/x")
    assert call.request.vouched is True
    assert rig.header("Idempotency-Key") == "uid-1-0"
    answer(rig, 0, 200, {"x": 1})
    assert rig.states() == [S.SUCCEEDED]
    (step,) = steps_of(rig)
    assert (step.instance, step.part, step.exchange.status) == ("b", None, 200)


@each_row(("is_full", "sent"), [(False, 1), (True, 0)])
def test_a_body_that_a_template_makes_larger_needs_room_in_the_process(is_full: bool, sent: int) -> None:
    """As with a step that is called directly."""
    rig = Rig(request=[{"url": "service://shop/x", "body": ["${trigger.p}"] * 30}])
    rig.instances = None
    rig.create()
    rig.deliver(Triggered(params=b'{"p":"%s"}' % (b"x" * 4_000)))
    rig.is_full = is_full
    rig.resolve("b", route="random")
    assert len(parts_of(rig)) == sent
    if not sent:
        assert rig.execution(1).error == "template"


def test_a_failing_answer_and_no_answer() -> None:
    """They fail the attempt with the codes of any step, and are retried by the policies."""
    rig = parted({"url": "service://shop/x"}, "b", route="random", retry=[{"errorEquals": "503"}])
    answer(rig, 0, 503)
    assert rig.states() == [S.FAILED]
    rig.pass_time(1_000)
    rig.resolve("c")
    assert rig.header("Idempotency-Key") == "uid-1-0"
    rig.fault(FaultKind.CONNECT)
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("500", FailureType.CONNECT)


def test_nobody_is_there() -> None:
    """No instance online: error `no_instance`, which policies may name."""
    rig = parted(None, retry=[{"errorEquals": "no_instance", "maxAttempts": 1}])
    assert rig.states() == [S.FAILED]
    rig.pass_time(1_000)
    rig.resolve()
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (
        S.TERMINATED,
        "no_instance",
        FailureType.NO_INSTANCE,
    )
    assert "'shop'" in (steps_of(rig)[0].exchange.fault or "")
    # A shard that nobody takes
    rig = parted(SHARDED, "a", "b")
    answer(rig, 0)
    answer(rig, 1, 503, headers=DRAINING)
    rig.resolve()
    assert rig.execution(1).error == "partial"
    assert steps_of(rig)[-2].error == "no_instance"


@each_row("qos", [0, 1])
def test_an_instance_is_waited_for(qos: int) -> None:
    """In the same attempt, as a line of its log says; who has refused the step may take it again."""
    rig = parted({"url": "service://shop/x"}, "a", route="random", qos=qos)
    refuse(rig, 0)
    rig.resolve(wait=30_000)
    search = rig.of(ResolveInstances, rig.effects)[-1]
    assert (search.waits, search.excluded) == (True, ())
    note = rig.of(Noted, rig.records)[-1]
    assert (note.kind, note.step) == ("waiting", 0)
    assert "no instance of shop takes work: waits for one, at most 30 s" in note.text
    if qos:
        rig.restart()
        assert rig.of(ResolveInstances, rig.effects)[-1].waits is False  # it is asked anew how long
        rig.resolve(wait=30_000)
    rig.resolve("a")
    answer(rig, -1)
    ended = rig.execution(1)
    assert (ended.state, ended.attempt_count) == (S.SUCCEEDED, 1)


@each_row("waits", [True, False])
def test_a_wait_ends_with_no_instance_or_with_the_attempt(waits: bool) -> None:
    """Whichever is over first."""
    rig = parted({"url": "service://shop/x"}, "a", route="random", timeoutSeconds=20)
    refuse(rig, 0)
    rig.resolve(wait=30_000)
    if waits:
        rig.pass_time(20_000)
    else:
        rig.resolve()
    assert rig.execution(1).error == ("500" if waits else "no_instance")
    assert rig.execution(1).failure_type is (FailureType.TIMEOUT if waits else FailureType.NO_INSTANCE)
    told = [one.message for one in rig.of(AttemptEnded, rig.records)]
    assert ("while it waited for an instance of 'shop'" in (told[0] or "")) is waits


def test_a_draining_instance_costs_no_attempt() -> None:
    """503 with `X-Instance-State: draining` marks it and asks another one, in the same attempt."""
    rig = parted({"url": "service://shop/x"}, "a", route="random")
    answer(rig, 0, 503, headers=DRAINING)
    assert rig.of(MarkDraining, rig.effects) == [MarkDraining("default", "shop", "a")]
    search = rig.of(ResolveInstances, rig.effects)[-1]
    assert search.excluded == ("a",)
    rig.resolve("b")
    second = parts_of(rig)[1]
    assert second.token != parts_of(rig)[0].token
    assert second.request.headers == parts_of(rig)[0].request.headers
    answer(rig, 1)
    assert rig.states() == [S.SUCCEEDED]
    assert rig.execution(1).attempt_count == 1
    assert [note.kind for note in rig.of(Noted, rig.records)] == ["draining"]
    # It was not called at all, for it had left or drained since it was chosen
    rig = parted({"url": "service://shop/x"}, "a", route="random")
    rig.deliver(CallEnded(parts_of(rig)[0].token, WITHDRAWN))
    assert rig.of(ResolveInstances, rig.effects)[-1].excluded == ("a",)
    rig.resolve("b")
    answer(rig, 1)
    assert rig.states() == [S.SUCCEEDED]
    assert rig.execution(1).attempt_count == 1


def refuse(rig: Rig, index: int) -> None:
    """The instance of the part that was sent as the `index`th was not reached."""
    fault = Fault(FaultKind.CONNECT, f"refused by {index}", 3, unsent=True)
    rig.deliver(CallEnded(parts_of(rig)[index].token, fault))


def test_an_instance_that_was_not_reached_costs_no_attempt() -> None:
    """It is marked; another one gets the same request, and none is tried twice in an attempt."""
    rig = parted({"url": "service://shop/x"}, "a", route="random", qos=1)
    refuse(rig, 0)
    assert rig.of(MarkRefused, rig.effects) == [MarkRefused("default", "shop", "a")]
    rig.resolve("b")
    assert parts_of(rig)[1].request.headers == parts_of(rig)[0].request.headers
    refuse(rig, 1)
    assert rig.of(ResolveInstances, rig.effects)[-1].excluded == ("a", "b")
    rig.resolve("c")
    answer(rig, 2)
    ended = rig.execution(1)
    assert (ended.state, ended.attempt_count) == (S.SUCCEEDED, 1)
    # Where nobody is reached the last fault ends the attempt, as a failed connection to any target
    rig = parted({"url": "service://shop/x"}, "a", route="random", retry=[{"errorEquals": "500"}])
    refuse(rig, 0)
    rig.resolve()
    assert rig.states() == [S.FAILED]
    (step,) = steps_of(rig)
    assert (step.instance, step.error, step.exchange.fault) == ("a", "500", "refused by 0")
    rig.pass_time(1_000)
    assert rig.of(ResolveInstances, rig.effects)[-1].excluded == ()
    # Only the header says that it drains
    rig = parted({"url": "service://shop/x"}, "a", route="random")
    answer(rig, 0, 503)
    assert rig.execution(1).error == "503"
    assert rig.of(MarkDraining, rig.effects) == []


def test_a_shard_of_a_draining_instance_goes_to_another_one() -> None:
    """The part keeps its index and its key; one instance is chosen, whatever the route."""
    rig = parted(SHARDED, "a", "b")
    answer(rig, 1, 503, headers=DRAINING)
    search = rig.of(ResolveInstances, rig.effects)[-1]
    assert (search.single, search.excluded) == (True, ("b",))
    answer(rig, 0)
    assert rig.states() == [S.PROCESSING]
    rig.resolve("a")
    again = parts_of(rig)[2]
    assert again.instance == "a"
    assert again.request.headers == parts_of(rig)[1].request.headers
    assert again.request.url.endswith("/1")
    answer(rig, 2)
    assert rig.states() == [S.SUCCEEDED]
    # A shard waits for an instance
    rig = parted(SHARDED, "a", "b")
    answer(rig, 1, 503, headers=DRAINING)
    rig.resolve(wait=30_000)
    search = rig.of(ResolveInstances, rig.effects)[-1]
    assert (search.single, search.waits, search.excluded) == (True, True, ())
    answer(rig, 0)
    rig.resolve("b")
    answer(rig, 2)
    assert rig.states() == [S.SUCCEEDED]


def test_a_broadcast_leaves_a_draining_instance_out() -> None:
    """Who stops needs to hear nothing: the step is what the others say."""
    rig = parted(BROADCAST, "a", "b", "c", route="broadcast")
    answer(rig, 1, 503, headers=DRAINING)
    answer(rig, 0, 200, 1)
    answer(rig, 2, 200, 3)
    assert rig.states() == [S.SUCCEEDED]
    assert steps_of(rig)[-1].exchange.response_body == b"[1,3]"
    # Those that came in their place get it; where none came, there is no instance
    rig = parted(BROADCAST, "a", "b", route="broadcast")
    answer(rig, 0, 503, headers=DRAINING)
    answer(rig, 1, 503, headers=DRAINING)
    assert rig.of(ResolveInstances, rig.effects)[-1].excluded == ("a", "b")
    rig.resolve(route="broadcast")
    assert rig.execution(1).error == "no_instance"


def test_each_part_reports_for_itself() -> None:
    """The execution succeeds when all parts have reported success."""
    rig = asynchronous("a", "b")
    assert isinstance(report(rig, 0, status="succeed"), Taken)
    assert rig.states() == [S.PROCESSING]
    assert isinstance(report(rig, 0, status="succeed"), Unchanged)
    again = report(rig, 0, status="failed")
    assert again.code is RefusalCode.STALE
    report(rig, 1, status="succeed")
    assert rig.states() == [S.SUCCEEDED]
    # Verdicts that come while parts are in flight count when the chain is through
    step = {"url": "service://shop/run", "route": "shard"}
    rig = parted(step, "a", "b", **{"async": True})
    report(rig, 1, status="succeed")
    report(rig, 0, status="succeed")
    answer(rig, 0, 202)
    assert rig.states() == [S.PROCESSING]
    answer(rig, 1, 202)
    assert rig.states() == [S.SUCCEEDED]
    # Its instance drains, so its report is not awaited
    rig = parted(
        {"url": "service://shop/run", "route": "broadcast"}, "a", "b", route="broadcast", **{"async": True}
    )
    answer(rig, 0, 503, headers=DRAINING)
    answer(rig, 1, 202)
    report(rig, 1, status="succeed")
    assert rig.states() == [S.SUCCEEDED]
    # A step that goes to one instance has no parts, and its feedback URL none either
    rig = parted({"url": "service://shop/run"}, "a", route="random", **{"async": True})
    assert isinstance(report(rig, None, status="succeed"), Taken)
    answer(rig, 0, 202)
    assert rig.states() == [S.SUCCEEDED]
    # With a `checkUrl` feedback of the parts is recorded, and the check says how it ends
    rig = asynchronous("a", "b", checkUrl="http://target.test/state")
    rig.pass_time(1_000)
    rig.answer(200, {"status": "succeed"})
    assert rig.states() == [S.SUCCEEDED]
    # The URL of each part carries `&shard=i`, and the history says which part reported
    rig = asynchronous("a", "b")
    urls = [json.loads(call.request.body or b"") for call in parts_of(rig)]
    assert [url.partition("&")[2] for url in urls] == ["shard=0", "shard=1"]
    assert isinstance(report(rig, 1, progress="1/2"), Taken)
    assert rig.record_of(FeedbackSeen).part == 1


@each_row("said", ["succeed", "failed"])
def test_each_part_may_repeat_what_it_has_said(said: str) -> None:
    """200, also when all is over; what contradicts it, another part said, or names no part is stale."""
    rig = asynchronous("a", "b", "c")
    bodies = [{"status": "succeed", "data": {"i": index}} for index in range(3)]
    bodies[1] |= {"status": said}
    for index, body in enumerate(bodies):
        assert isinstance(report(rig, index, **body), Taken)
    assert rig.states() == [S.SUCCEEDED if said == "succeed" else S.TERMINATED]
    rig.restart()
    for index, body in enumerate(bodies):
        assert isinstance(report(rig, index, **body), Unchanged)
        for stranger in (None, -1, (index + 1) % 3, 3):
            assert isinstance(report(rig, stranger, **body), Refusal)
        again = report(rig, index, status="succeed", data={"i": 7})
        assert again.code is RefusalCode.STALE


def test_what_very_many_parts_said_is_kept_of_the_newest_attempt() -> None:
    """The head of a job stays small, however many parts its attempts have."""
    rig = asynchronous(*(f"i{number}" for number in range(300)), maxConcurrency=9)
    for counts in (1, 2):
        if counts == 2:
            rig.deliver(Triggered())
            rig.resolve(*(f"i{number}" for number in range(300)), route="shard")
            for index in range(300):
                answer(rig, 300 + index, 202)
        token = feedback_token(b"key", "uid", counts)
        for index in range(300):
            rig.deliver(FeedbackArrived(counts, token, {"status": "succeed", "data": index}, index))
    first, second = rig.head.ended
    assert (len(first.digest), len(second.digest)) == (0, 300 * 12)


@each_row("shard", [None, -1, 2])
def test_a_report_without_its_part_is_refused(shard: int | None) -> None:
    """Nobody can say whose it is."""
    reply = report(asynchronous("a", "b"), shard, status="succeed")
    assert (reply.code, reply.pointer) == (RefusalCode.INVALID, "/shard")


def test_a_verdict_stands_in_for_the_answer_of_its_part() -> None:
    """Where no answer came but the part has reported (SPEC section 5)."""
    rig = parted({"url": "service://shop/run", "route": "shard"}, "a", "b", **{"async": True})
    answer(rig, 0, 202)
    report(rig, 1, status="succeed")
    rig.deliver(CallEnded(parts_of(rig)[1].token, Fault(FaultKind.CONNECT, "cut")))
    assert rig.states() == [S.PROCESSING]
    report(rig, 0, status="succeed")
    assert rig.states() == [S.SUCCEEDED]


def test_a_part_that_was_never_asked_is_asked() -> None:
    """That one alone, with its own request; one that has ended is left alone."""
    rig = parted(None, "a", "b", "c")
    first, second, third = rig.calls()
    rig.deliver(CallEnded(first.token, Answer(200)))
    assert rig.deliver(Unsent(second.token, rig.holder)).effects == (second,)
    assert rig.deliver(Unsent(first.token, rig.holder)).effects == ()
    assert third.token != second.token


def paused(rig: Rig) -> ResolveInstances:
    """The service is paused when it is asked for; the search that waits for its end."""
    rig.resolve(paused=True)
    held = rig.of(ResolveInstances, rig.effects)[-1]
    assert held.held
    return held


@each_row("restarts", [False, True])
def test_a_pause_does_not_count_against_the_attempt(restarts: bool) -> None:
    """However long it is, and over a crash in it: the step has what was left, and no attempt is used up."""
    rig = searching(timeoutSeconds=60, qos=1)
    rig.pass_time(20_000)
    paused(rig)
    rig.pass_time(3 * DAY)
    if restarts:
        rig.restart()
        assert rig.of(ResolveInstances, rig.effects)[-1].held
        rig.pass_time(3 * DAY)
    rig.resolve("a")
    assert rig.wait() == 40_000
    assert rig.request.timeout <= 41_000
    rig.answer(200)
    assert rig.states()[-1] is ExecutionState.SUCCEEDED
    assert [one.text for one in rig.of(Noted, rig.records)] == ["shop is paused: waits until it is resumed"]


def test_a_pause_that_begins_while_an_instance_is_awaited() -> None:
    """After it the wait for an instance begins anew, and time counts again."""
    rig = searching(timeoutSeconds=60)
    rig.resolve(wait=30_000)
    rig.pass_time(20_000)
    paused(rig)
    rig.pass_time(DAY)
    rig.resolve(wait=30_000)
    assert rig.of(ResolveInstances, rig.effects)[-1].waits
    rig.resolve()
    assert rig.execution(1).error == "no_instance"
    # A call that waited when the pause began: it is looked for anew, and is no failure of its instance
    rig = searching(timeoutSeconds=60)
    rig.resolve("a")
    rig.deliver(CallEnded(rig.call.token, PAUSED))
    assert rig.of(MarkRefused, rig.effects) == []
    paused(rig)
    rig.pass_time(DAY)
    rig.resolve("b")
    rig.answer(200)
    assert rig.states()[-1] is ExecutionState.SUCCEEDED
    assert [step.error for step in steps_of(rig)] == [None]
    # Held work can be cancelled: its search is abandoned
    rig = searching(timeoutSeconds=60)
    held = paused(rig)
    rig.deliver(CancelRequested(1))
    assert AbandonPart(held.token) in rig.effects
    assert rig.states()[-1] is ExecutionState.CANCELLED


@each_row("route", ["shard", "broadcast"])
def test_a_part_that_waited_when_the_pause_began(route: str) -> None:
    """The others go on; it goes out after the pause, of a broadcast to its own instance."""
    rig = parted({"url": "service://shop/run", "route": route}, "a", "b", route=route, timeoutSeconds=60)
    answer(rig, 0)
    rig.deliver(CallEnded(parts_of(rig)[1].token, PAUSED))
    held = paused(rig)
    assert (held.single, held.only) == (True, "b" if route == "broadcast" else "")
    rig.pass_time(DAY)
    rig.resolve("b", route=route)
    answer(rig, 2)
    assert rig.states()[-1] is ExecutionState.SUCCEEDED


def searching(**members: Any) -> Rig:
    """A job whose step has just asked for an instance."""
    return Rig(request=[{"url": "service://shop/run"}], **members).without_instances().triggered()
