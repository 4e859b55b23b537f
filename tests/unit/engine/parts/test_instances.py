"""Steps at the instances of a service: parts, their ends, what a crash leaves (SPEC section 13)."""

import json
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.effects import (
    AbandonPart,
    CallPart,
    Inform,
    MarkDraining,
    ResolveInstances,
)
from scheduler_service.domain.events import (
    CallEnded,
    CancelRequested,
    FeedbackArrived,
    InstancesResolved,
    Paused,
    Triggered,
    Unsent,
)
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.parts import Chosen
from scheduler_service.domain.records import FeedbackSeen, Noted, StepEnded
from scheduler_service.domain.replies import Refusal, RefusalCode, Taken, Unchanged
from scheduler_service.domain.wire import Answer, Fault, FaultKind, Token
from scheduler_service.engine.scope import feedback_token
from scheduler_service.engine.snapshot import FORMAT, decode, encode
from tests.unit.engine.rig import Rig

S = ExecutionState
SHARDED = {
    "url": "service://shop/run/${schedulingShardIndex}",
    "route": "shard",
    "body": {"of": "${schedulingShardTotal}|json"},
}
BROADCAST = {"url": "service://shop/run", "route": "broadcast"}
DRAINING = {"X-Instance-State": "draining"}
GONE = {"X-Job-State": "gone"}


def parted(step: dict[str, Any] | None = None, *names: str, route: str = "shard", **members: Any) -> Rig:
    """A job whose step has just been resolved to these instances."""
    rig = Rig(**{"request": [step or SHARDED], **members})
    rig.instances = None
    rig.create()
    rig.deliver(Triggered())
    rig.resolve(*names, route=route)
    return rig


def parts_of(rig: Rig) -> list[CallPart]:
    """Every part that was sent so far."""
    return rig.of(CallPart, rig.effects)


def answer(rig: Rig, index: int, status: int = 200, body: Any = None, **given: Any) -> None:
    """The part that was sent as the `index`th is answered."""
    rig.answer(status, body, call=parts_of(rig)[index], **given)


def steps_of(rig: Rig) -> list[StepEnded]:
    return rig.of(StepEnded, rig.records)


def report(rig: Rig, shard: int | None, **body: Any) -> Any:
    """A part's feedback."""
    token = feedback_token(b"key", "uid", 1)
    return rig.deliver(FeedbackArrived(1, token, body, shard)).reply


def test_a_service_step_is_resolved_before_it_is_called() -> None:
    """A step asks for its instances first, with all that routing may look at."""
    rig = Rig(request=[{"url": "service://shop/x", "route": "hash", "tags": ["b", "a", "b"]}])
    rig.instances = None
    rig.create()
    rig.deliver(Triggered())
    search = rig.of(ResolveInstances, rig.effects)[0]
    assert (search.tenant, search.service, search.route) == ("default", "shop", "hash")
    assert (search.tags, search.key, search.single) == (("a", "b"), "job", False)
    assert rig.calls() == []


@pytest.mark.parametrize("url", ["service:/x", "service://{serviceName}/x", "service://{serviceGateway}/s/x"])
def test_the_owner_and_the_gateway_are_called_directly(url: str) -> None:
    """They have no instances that anybody here could choose among."""
    rig = Rig(request=[{"url": url}])
    rig.instances = None
    rig.create()
    rig.deliver(Triggered())
    assert rig.request.url == url
    assert rig.request.base == ""


def test_one_instance_ends_the_step_as_any_other() -> None:
    """A policy that chooses one: its answer is the step's, and history says whose it was."""
    rig = parted({"url": "service://shop/x", "respEnvName": "A"}, "b", route="random")
    call = parts_of(rig)[0]
    assert (call.instance, call.request.base, call.request.url) == ("b", "http://b.test", "service://shop/x")
    assert rig.header("Idempotency-Key") == "uid-1-0"
    answer(rig, 0, 200, {"x": 1})
    assert rig.states() == [S.SUCCEEDED]
    (step,) = steps_of(rig)
    assert (step.instance, step.part, step.exchange.status) == ("b", None, 200)


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


def test_a_shard_for_each_instance() -> None:
    """Each part has its index and the number of parts, a key of its own, and the response is the array."""
    rig = parted(SHARDED, "a", "b", "c")
    sent = parts_of(rig)
    assert [call.request.url for call in sent] == [f"service://shop/run/{index}" for index in range(3)]
    assert [json.loads(call.request.body or b"") for call in sent] == [{"of": 3}] * 3
    keys = [dict(call.request.headers)["Idempotency-Key"] for call in sent]
    assert keys == ["uid-1-0-0of3", "uid-1-0-1of3", "uid-1-0-2of3"]
    for index in (2, 0, 1):
        assert rig.states() == [S.PROCESSING]
        answer(rig, index, 200, {"n": index})
    assert rig.states() == [S.SUCCEEDED]
    assert [step.part for step in steps_of(rig)] == [2, 0, 1, None]
    assert json.loads(steps_of(rig)[-1].exchange.response_body or b"") == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_broadcast_is_the_same_for_all() -> None:
    """Every instance gets the same request under a key of its own, whoever else is there."""
    step = BROADCAST | {"body": "${schedulingShardIndex} of ${schedulingShardTotal}"}
    rig = parted(step, "a", "b", route="broadcast")
    first = parts_of(rig)
    assert {call.request.body for call in first} == {b'"0 of 1"'}
    keys = {call.instance: dict(call.request.headers)["Idempotency-Key"] for call in first}
    assert len(set(keys.values())) == 2
    other = parted(step, "b", "c", route="broadcast")
    assert dict(parts_of(other)[0].request.headers)["Idempotency-Key"] == keys["b"]


def test_a_spread_over_one() -> None:
    """One instance alone is a spread of one part: the response is still an array."""
    rig = parted(SHARDED, "a")
    answer(rig, 0, 200, 7)
    assert steps_of(rig)[-1].exchange.response_body == b"[7]"


def test_the_array_feeds_the_next_step() -> None:
    """Later templates see the parts' responses in part order; what is no JSON is text, nothing is null."""
    reader = {"url": "http://target.test/", "body": "${A}|json"}
    rig = parted(
        SHARDED | {"respEnvName": "A"}, "a", "b", "c", request=[SHARDED | {"respEnvName": "A"}, reader]
    )
    answer(rig, 1, 200, b"plain")
    answer(rig, 2, 204)
    answer(rig, 0, 200, {"x": 1})
    assert rig.sent_body() == [{"x": 1}, "plain", ""]


def test_a_mixed_end_is_partial() -> None:
    """Some parts succeed and some fail: error `partial`, said when all have ended."""
    rig = parted(SHARDED, "a", "b", "c", notification=[{"url": "http://caller.test/"}])
    answer(rig, 0, 500)
    answer(rig, 1)
    assert rig.states() == [S.PROCESSING]
    answer(rig, 2)
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (S.TERMINATED, "partial", FailureType.PARTIAL)
    assert [event for event, _ in rig.told()] == ["partial", "finalFailed"]


def test_where_all_fail_the_first_one_says_why() -> None:
    """Nothing succeeded, so nothing is partial: the code of the first part that failed is the step's."""
    rig = parted(SHARDED, "a", "b")
    answer(rig, 1, 500)
    answer(rig, 0, 404)
    assert rig.execution(1).error == "404"


def test_a_retry_sends_the_whole_step_again_under_the_same_keys() -> None:
    """A new attempt resolves anew; the same part of the same whole has the same key."""
    rig = parted(SHARDED, "a", "b", retry=[{"errorEquals": "partial"}])
    answer(rig, 0, 200)
    answer(rig, 1, 500)
    rig.pass_time(1_000)
    rig.resolve("a", "b", route="shard")
    keys = [dict(call.request.headers)["Idempotency-Key"] for call in parts_of(rig)]
    assert keys[:2] == keys[2:]
    answer(rig, 2)
    answer(rig, 3)
    assert rig.states() == [S.SUCCEEDED]


def test_retry_after_of_the_parts_lengthens_the_wait() -> None:
    """The longest one that any part asks for."""
    rig = parted(SHARDED, "a", "b", retry=[{"errorEquals": "503"}])
    answer(rig, 0, 503, headers={"Retry-After": "5"})
    answer(rig, 1, 503, headers={"Retry-After": "9"})
    assert rig.wait() == 9_000


def test_one_part_hangs() -> None:
    """The attempt's limit ends the step: what is open is given up, and history says which part that was."""
    rig = parted(SHARDED, "a", "b", cancelUrl={"url": "service://shop/stop"})
    answer(rig, 0)
    rig.pass_time(60_000)
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("500", FailureType.TIMEOUT)
    assert [one.token for one in rig.of(AbandonPart, rig.effects)] == [parts_of(rig)[1].token]
    assert len(rig.of(Inform, rig.effects)) == 1
    assert [(step.part, step.error) for step in steps_of(rig)] == [(0, None), (1, "timeout")]


def test_a_part_without_an_answer_in_time_is_a_part_that_failed() -> None:
    """The HTTP timeout of one call ends that part alone."""
    rig = parted(SHARDED, "a", "b")
    answer(rig, 0)
    rig.deliver(CallEnded(parts_of(rig)[1].token, Fault(FaultKind.TIMEOUT, "slow")))
    assert rig.execution(1).error == "partial"


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


def test_503_without_the_mark_is_an_answer() -> None:
    """Only the header says that it drains."""
    rig = parted({"url": "service://shop/x"}, "a", route="random")
    answer(rig, 0, 503)
    assert rig.execution(1).error == "503"
    assert rig.of(MarkDraining, rig.effects) == []


def test_a_shard_of_a_draining_instance_goes_to_another_one() -> None:
    """The part keeps its index and its key; one instance is asked, whatever the route."""
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


def test_a_shard_that_nobody_takes() -> None:
    """Its instance drains and no other one is there: that part fails with `no_instance`."""
    rig = parted(SHARDED, "a", "b")
    answer(rig, 0)
    answer(rig, 1, 503, headers=DRAINING)
    rig.resolve()
    assert rig.execution(1).error == "partial"
    assert steps_of(rig)[-2].error == "no_instance"


def test_a_broadcast_leaves_a_draining_instance_out() -> None:
    """Who stops needs to hear nothing: the step is what the others say."""
    rig = parted(BROADCAST, "a", "b", "c", route="broadcast")
    answer(rig, 1, 503, headers=DRAINING)
    answer(rig, 0, 200, 1)
    answer(rig, 2, 200, 3)
    assert rig.states() == [S.SUCCEEDED]
    assert steps_of(rig)[-1].exchange.response_body == b"[1,3]"


def test_a_broadcast_whose_instances_all_drain_asks_again() -> None:
    """Those that came in their place get it; where none came, there is no instance."""
    rig = parted(BROADCAST, "a", "b", route="broadcast")
    answer(rig, 0, 503, headers=DRAINING)
    answer(rig, 1, 503, headers=DRAINING)
    assert rig.of(ResolveInstances, rig.effects)[-1].excluded == ("a", "b")
    rig.resolve(route="broadcast")
    assert rig.execution(1).error == "no_instance"


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
    """Firings in the line are skipped as `gone`; triggers that wait are somebody's wish and stay."""
    rig = Rig(timer={"dueTime": "0s", "period": "1s"}, overlapPolicy="queue").create()
    rig.pass_time(1_000)
    rig.deliver(Triggered())
    rig.answer(410, headers=GONE)
    assert rig.execution(2).reason == "gone"
    assert rig.execution(3).state is S.PROCESSING
    assert (1_000, "skipped", "gone") in rig.ledger()


def test_cancelling_gives_up_all_parts() -> None:
    """What is in flight, and what looks for an instance, is stopped."""
    rig = parted(SHARDED, "a", "b", "c")
    answer(rig, 0)
    answer(rig, 1, 503, headers=DRAINING)
    rig.deliver(CancelRequested(1))
    assert rig.states() == [S.CANCELLED]
    kinds = sorted(one.token.kind.value for one in rig.of(AbandonPart, rig.effects))
    assert kinds == ["part", "resolve"]


def test_cancelling_a_step_that_looks_for_its_instance() -> None:
    """The search is given up."""
    rig = Rig(request=[SHARDED])
    rig.instances = None
    rig.create()
    rig.deliver(Triggered())
    rig.deliver(Paused())
    assert len(rig.of(AbandonPart, rig.effects)) == 1
    late = InstancesResolved(rig.of(ResolveInstances, rig.effects)[0].token, (Chosen("a", "http://a.test"),))
    assert isinstance(rig.deliver(late).reply, Unchanged)


def test_late_doubled_and_foreign_answers_change_nothing() -> None:
    """Each answer counts once, for the call that awaits it."""
    rig = parted(SHARDED, "a", "b")
    first = parts_of(rig)[0].token
    found = rig.of(ResolveInstances, rig.effects)[0]
    assert isinstance(rig.deliver(InstancesResolved(found.token, ())).reply, Unchanged)
    assert isinstance(rig.deliver(CallEnded(first, Answer(200))).reply, Taken)
    for token in (
        first,
        msgspec.structs.replace(first, uid="else"),
        msgspec.structs.replace(first, request_counts=2),
        Token("uid", 1, 1, found.token.kind, first.serial),
        found.token,
    ):
        assert isinstance(rig.deliver(CallEnded(token, Answer(500))).reply, Unchanged)
    assert rig.states() == [S.PROCESSING]


def test_a_crash_sends_only_the_open_parts_again() -> None:
    """At qos 1 the ends of parts are durable; what is open goes out again byte for byte."""
    rig = parted(SHARDED, "a", "b", "c", qos=1)
    before = parts_of(rig)
    answer(rig, 1, 200, {"n": 1})
    rig.restart()
    assert parts_of(rig) == [before[0], before[2]]
    answer(rig, 0, 200, 0)
    answer(rig, 1, 200, 2)
    assert rig.states() == [S.SUCCEEDED]
    assert steps_of(rig)[-1].exchange.response_body == b'[0,{"n":1},2]'


def test_a_crash_repeats_a_search() -> None:
    """A step, or a part, that looked for an instance looks again."""
    rig = Rig(request=[SHARDED], qos=1)
    rig.instances = None
    rig.create()
    rig.deliver(Triggered())
    first = rig.of(ResolveInstances, rig.effects)
    rig.restart()
    assert rig.of(ResolveInstances, rig.effects) == first
    rig.resolve("a", "b", route="shard")
    answer(rig, 0, 503, headers=DRAINING)
    second = rig.of(ResolveInstances, rig.effects)[-1]
    open_part = parts_of(rig)[1]
    rig.restart()
    assert rig.of(ResolveInstances, rig.effects) == [second]
    assert parts_of(rig) == [open_part]


def test_a_crash_at_qos_0_loses_the_execution() -> None:
    """As with any call in flight."""
    rig = parted(SHARDED, "a", "b")
    rig.restart()
    assert rig.execution(1).error == "lost"


def test_every_phase_survives_the_snapshot() -> None:
    """What is written is read back as it was, in every phase of a step with parts."""
    rig = Rig(request=[SHARDED | {"body": "${schedulingFeedbackUrl}"}], qos=1, **{"async": True})
    rig.instances = None
    rig.create()
    rig.deliver(Triggered())
    seen = [type(rig.context(1).phase).__name__]
    for event in (
        lambda: rig.resolve("a", "b", route="shard"),
        lambda: answer(rig, 0, 500 - 300),
        lambda: report(rig, 1, status="succeed"),
        lambda: answer(rig, 1),
    ):
        assert rig.document is not None
        assert decode(encode(rig.document)).contexts[1].phase == rig.context(1).phase
        event()
        seen.append(type(rig.context(1).phase).__name__)
    assert seen == ["Resolving", "PartsOpen", "PartsOpen", "PartsOpen", "PartsAwaited"]


def test_an_older_snapshot_is_read() -> None:
    """Format 1 knew no parts; all that it says means the same."""
    rig = Rig(qos=1).create()
    rig.deliver(Triggered())
    assert rig.document is not None
    raw = msgspec.msgpack.decode(encode(rig.document))
    assert raw["format"] == FORMAT == 2
    read = decode(msgspec.msgpack.encode({**raw, "format": 1}))
    assert read.head == rig.document.head
    assert read.contexts[1].phase == rig.context(1).phase


def asynchronous(*names: str, route: str = "shard", **members: Any) -> Rig:
    """An asynchronous job whose parts have all been answered 202."""
    step = {"url": "service://shop/run", "route": route, "body": "${schedulingFeedbackUrl}"}
    rig = parted(step, *names, route=route, **{"async": True}, **members)
    for index in range(len(names)):
        answer(rig, index, 202)
    return rig


def test_feedback_names_its_part() -> None:
    """The URL of each part carries `&shard=i`, and the history says which part reported."""
    rig = asynchronous("a", "b")
    urls = [json.loads(call.request.body or b"") for call in parts_of(rig)]
    assert [url.partition("&")[2] for url in urls] == ["shard=0", "shard=1"]
    assert isinstance(report(rig, 1, progress="1/2"), Taken)
    assert rig.record_of(FeedbackSeen).part == 1


def test_each_part_reports_for_itself() -> None:
    """The execution succeeds when all parts have reported success."""
    rig = asynchronous("a", "b")
    assert isinstance(report(rig, 0, status="succeed"), Taken)
    assert rig.states() == [S.PROCESSING]
    assert isinstance(report(rig, 0, status="succeed"), Unchanged)
    again = report(rig, 0, status="failed")
    assert isinstance(again, Refusal)
    assert again.code is RefusalCode.STALE
    report(rig, 1, status="succeed")
    assert rig.states() == [S.SUCCEEDED]


@pytest.mark.parametrize("said", ["succeed", "failed"])
def test_each_part_may_repeat_what_it_has_said(said: str) -> None:
    """The deciding feedback repeated is 200 for each part, also when all is over; what contradicts it, what
    another part said, and what names no part is stale.
    """
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
        assert isinstance(again, Refusal)
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
    assert rig.document is not None
    first, second = rig.document.head.ended
    assert (len(first.digest), len(second.digest)) == (0, 300 * 12)


def test_reports_that_differ_are_partial() -> None:
    """Some succeed and some fail; where all fail the first one's code is the error."""
    mixed = asynchronous("a", "b")
    report(mixed, 1, status="succeed")
    report(mixed, 0, status="failed", error="e1")
    assert (mixed.execution(1).error, mixed.execution(1).failure_type) == ("partial", FailureType.PARTIAL)
    failed = asynchronous("a", "b", route="broadcast")
    report(failed, 1, status="failed", error="e2")
    report(failed, 0, status="failed", error="e1")
    assert (failed.execution(1).error, failed.execution(1).failure_type) == ("e1", FailureType.BUSINESS)


@pytest.mark.parametrize("shard", [None, -1, 2])
def test_a_report_without_its_part_is_refused(shard: int | None) -> None:
    """Nobody can say whose it is."""
    reply = report(asynchronous("a", "b"), shard, status="succeed")
    assert isinstance(reply, Refusal)
    assert (reply.code, reply.pointer) == (RefusalCode.INVALID, "/shard")


def test_a_report_before_the_answer_waits_for_the_chain() -> None:
    """Verdicts that come while parts are in flight count when the chain is through."""
    step = {"url": "service://shop/run", "route": "shard"}
    rig = parted(step, "a", "b", **{"async": True})
    report(rig, 1, status="succeed")
    report(rig, 0, status="succeed")
    answer(rig, 0, 202)
    assert rig.states() == [S.PROCESSING]
    answer(rig, 1, 202)
    assert rig.states() == [S.SUCCEEDED]


def test_a_verdict_stands_in_for_the_answer_of_its_part() -> None:
    """Where no answer came but the part has reported (SPEC section 5)."""
    rig = parted({"url": "service://shop/run", "route": "shard"}, "a", "b", **{"async": True})
    answer(rig, 0, 202)
    report(rig, 1, status="succeed")
    rig.deliver(CallEnded(parts_of(rig)[1].token, Fault(FaultKind.CONNECT, "cut")))
    assert rig.states() == [S.PROCESSING]
    report(rig, 0, status="succeed")
    assert rig.states() == [S.SUCCEEDED]


def test_a_dropped_part_of_a_broadcast_reports_nothing() -> None:
    """Its instance drains; nobody waits for what it would say."""
    rig = parted(
        {"url": "service://shop/run", "route": "broadcast"}, "a", "b", route="broadcast", **{"async": True}
    )
    answer(rig, 0, 503, headers=DRAINING)
    answer(rig, 1, 202)
    report(rig, 1, status="succeed")
    assert rig.states() == [S.SUCCEEDED]


def test_one_instance_reports_without_naming_a_part() -> None:
    """A step that goes to one instance has no parts, and its feedback URL none either."""
    rig = parted({"url": "service://shop/run"}, "a", route="random", **{"async": True})
    assert isinstance(report(rig, None, status="succeed"), Taken)
    answer(rig, 0, 202)
    assert rig.states() == [S.SUCCEEDED]


def test_a_check_decides_over_all_parts() -> None:
    """With a `checkUrl` feedback of the parts is recorded, and the check says how it ends."""
    rig = asynchronous("a", "b", checkUrl="http://target.test/state")
    rig.pass_time(1_000)
    rig.answer(200, {"status": "succeed"})
    assert rig.states() == [S.SUCCEEDED]


def test_bodies_beyond_the_limit() -> None:
    """All parts together keep no more than one response may have; where a later step needs them it fails."""
    reader = {"url": "http://target.test/", "body": "${A}|json"}
    step = SHARDED | {"respEnvName": "A"}
    for request, end in (([step], S.SUCCEEDED), ([step, reader], S.TERMINATED)):
        rig = parted(None, "a", "b", request=request)
        answer(rig, 0, 200, "x" * 600_000)
        answer(rig, 1, 200, "y" * 600_000)
        assert rig.states() == [end]
    assert rig.execution(1).error == "response_too_large"


def test_a_gone_job_that_is_paused_stays_as_it_was_paused() -> None:
    """Somebody's pause keeps its reason and its moment."""
    rig = parted({"url": "service://shop/x"}, "a", route="random")
    rig.deliver(Paused(drain=True))
    answer(rig, 0, 410, headers=GONE)
    assert rig.execution(1).reason == "gone"
    assert rig.document is not None
    assert rig.document.head.pause_reason != "gone"


def test_a_part_that_was_never_asked_is_asked() -> None:
    """That one alone, with its own request; one that has ended is left alone."""
    rig = parted(None, "a", "b", "c")
    first, second, third = rig.calls()
    rig.deliver(CallEnded(first.token, Answer(200)))
    assert rig.deliver(Unsent(second.token, rig.holder)).effects == (second,)
    assert rig.deliver(Unsent(first.token, rig.holder)).effects == ()
    assert third.token != second.token
