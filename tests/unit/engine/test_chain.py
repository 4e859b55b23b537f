"""The chain, its answers and its retries (SPEC sections 4, 5 and 6)."""

from typing import Any

from scheduler_service.domain.effects import ResolveInstances
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, Noted, ResultKept, StepEnded
from scheduler_service.domain.replies import Started
from scheduler_service.domain.turn_events import Activated, CallEnded, Paused, Replay, Triggered
from scheduler_service.domain.wire import Fault, FaultKind
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.parts.service_rig import SHARDED, answer, parted, parts_of, steps_of
from tests.unit.engine.rig import TWO, Rig, retried


def test_one_step_succeeds() -> None:
    """A 2xx ends a one-step job as succeeded, with one attempt."""
    rig = Rig().triggered()
    assert rig.reply == Started(1, ExecutionState.PROCESSING, "uid")
    assert rig.request.method == "POST"
    rig.answer(204)
    ended = rig.execution(1)
    assert (ended.state, ended.attempt_count, ended.error) == (ExecutionState.SUCCEEDED, 1, None)
    assert rig.summary.live == 0


def test_steps_use_earlier_answers() -> None:
    """Steps run in order; named responses and the latest one fill templates with real JSON types."""
    rig = Rig(request=TWO).triggered()
    rig.answer(200, {"x": 5, "deep": [1, None]})
    assert rig.request.url == "http://target.test/two?x=5"
    assert rig.sent_body() == {"all": {"x": 5, "deep": [1, None]}, "x": "5"}
    rig.answer()
    assert [one.index for one in rig.of(StepEnded, rig.records)] == [0, 1]
    assert rig.states() == [ExecutionState.SUCCEEDED]
    # Parameters are the first response
    step = {"url": "http://target.test/${$.who}", "body": {"p": "${trigger}|json"}}
    rig = Rig(request=[step]).create()
    rig.deliver(Triggered(params=b'{"who":"a/b","n":1}'))
    assert rig.request.url == "http://target.test/a%2Fb"
    assert rig.sent_body() == {"p": {"who": "a/b", "n": 1}}


def test_responses_for_later_steps_are_limited_together() -> None:
    """To four times the largest: a template that uses them decodes them all."""
    names = [{"url": "http://target.test/", "respEnvName": f"r{n}"} for n in range(6)]
    last = {"url": "http://target.test/", "body": [f"${{r{n}}}|json" for n in range(6)]}
    rig = Rig(Surroundings(response_bytes=100), request=[*names, last]).triggered()
    for _ in range(4):
        rig.answer(200, "x" * 90)
    assert rig.states() == [ExecutionState.PROCESSING]
    rig.answer(200, "x" * 90)
    ended = rig.execution(1)
    assert (ended.error, ended.failure_type) == ("response_too_large", FailureType.TOO_LARGE)
    assert "400 bytes together" in rig.of(AttemptEnded, rig.records)[-1].message
    # A small one does not, nor does one that no step needs
    step, last = (
        {"url": "http://target.test/"},
        {"url": "http://target.test/", "body": "${responses[0]}|json"},
    )
    for needed, size, is_kept in ((True, 4_097, False), (True, 4_096, True), (False, 4_097, True)):
        rig = Rig(request=[step, last if needed else step]).create()
        rig.is_full = True
        rig.deliver(Triggered())
        rig.answer(200, "x" * (size - 2))
        assert len(rig.calls()) == 1 + is_kept
        if not is_kept:
            ended = rig.execution(1)
            assert (ended.error, ended.failure_type) == ("response_too_large", FailureType.TOO_LARGE)
            assert "limits.open_bytes" in rig.of(AttemptEnded, rig.records)[-1].message


MANY_TIMES = {"url": "http://target.test/", "body": ["${trigger.p}"] * 30}


def test_a_body_that_a_template_makes_larger_needs_room_in_the_process() -> None:
    """Where there is none the step fails; what is made is told, for the host to weigh it."""
    for is_full in (False, True):
        rig = Rig(request=[MANY_TIMES]).create()
        rig.is_full = is_full
        decision = rig.deliver(Triggered(params=b'{"p":"%s"}' % (b"x" * 4_000)))
        assert len(rig.calls()) == (not is_full)
        assert decision.counts_more == (not is_full)
    ended = rig.execution(1)
    assert (ended.error, ended.failure_type) == ("template", FailureType.TEMPLATE)
    assert "step 0: the body would have 120" in rig.of(AttemptEnded, rig.records)[-1].message
    # Bodies of one turn are limited together, by what they are larger than what makes them: 16 MiB
    step = {"url": "http://target.test/", "body": ["${trigger.p}"] * 200}
    rig = Rig(request=[step], overlapPolicy="allow").create()
    moment = rig.now.wall + 10_000
    for _ in range(5):
        rig.deliver(Triggered(params=b'{"p":"%s"}' % (b"x" * 25_000), planned_at=moment))
    rig.pass_time(10_000)
    assert len(rig.calls()) == 3


@each_row(
    "body",
    [
        "x" * 50_000,
        ["x" * 50_000, "${executeNumber}"],
        "${trigger}|json",
        ["${trigger.p}"],
        ["${jobId}"] * 90,
    ],
)
def test_a_body_that_is_no_larger_needs_no_room(body: object) -> None:
    """What is literal, or counted already, or small."""
    rig = Rig(request=[{"url": "http://target.test/", "body": body}]).create()
    rig.is_full = True
    rig.deliver(Triggered(params=b'{"p":"%s"}' % (b"x" * 4_000)))
    assert len(rig.calls()) == 1


def test_chain_stops_at_the_first_failure() -> None:
    """A non-success status is the error code, and no later step is sent."""
    rig = Rig(request=TWO).triggered()
    rig.answer(404)
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (
        ExecutionState.TERMINATED,
        "404",
        FailureType.HTTP,
    )
    assert len(rig.calls()) == 1


@each_row(
    ("kind", "error", "failure_type"),
    [
        (FaultKind.CONNECT, "500", FailureType.CONNECT),
        (FaultKind.TIMEOUT, "500", FailureType.TIMEOUT),
        (FaultKind.EGRESS, "egress", FailureType.EGRESS),
        (FaultKind.NO_INSTANCE, "no_instance", FailureType.NO_INSTANCE),
    ],
)
def test_no_answer_is_an_error_code(kind: FaultKind, error: str, failure_type: FailureType) -> None:
    """A connection failure or timeout raises 500; egress and no_instance are codes of their own."""
    rig = Rig().triggered()
    rig.fault(kind, "why")
    ended = rig.execution(1)
    assert (ended.error, ended.failure_type) == (error, failure_type)
    assert (rig.record_of(AttemptEnded).message or "").startswith("why")


@each_row(
    ("step", "limit"),
    [
        ({"timeoutSeconds": 2.5}, "2.5 s, the timeoutSeconds of the step"),
        ({}, "60 s, the setting defaults.http_timeout_seconds"),
    ],
)
def test_a_call_without_an_answer_names_its_limit(step: dict[str, Any], limit: str) -> None:
    """Its value, and what gives it; other failures have none (SPEC section 5)."""
    timed_out = f"why; the limit of the call is {limit}"
    for kind, said in ((FaultKind.TIMEOUT, timed_out), (FaultKind.CONNECT, "why")):
        rig = Rig(request=[{**TWO[0], **step}]).triggered()
        rig.fault(kind, "why")
        assert rig.record_of(AttemptEnded).message == said


@each_row("replay", [Replay(1, 5, (b"{}",) * 5), Replay(1, 2, (b'{"x":7}',))])
def test_a_replay_stays_within_the_chain(replay: Replay) -> None:
    """A step that is gone, or whose earlier responses are: the last one that can be sent."""
    rig = Rig(request=[TWO[0], {"url": "http://target.test/two"}]).create()
    rig.deliver(Triggered(replay=replay))
    assert rig.request.url == "http://target.test/two"


def test_an_attempt_over_its_limit_in_a_step() -> None:
    """A synchronous attempt over `timeoutSeconds` is a 500 of the step in flight (SPEC section 5)."""
    rig = retried([TWO[0], {**TWO[1], "retryFrom": "step"}], timeoutSeconds=5)
    rig.answer(200, {"x": 1})
    rig.pass_time(5_000)
    step = rig.record_of(StepEnded)
    assert (step.index, step.error, step.exchange.status) == (1, "timeout", None)
    assert rig.execution(1).error == "500"
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/two?x=1"


@each_row(
    "field",
    [
        {"body": "${ONE}"},
        {"body": {"x": ["${ONE}|json"]}},
        {"body": "${responses[0]}"},
        {"body": "${$.responses}|json"},
        {"body": "${$.responses[*]}|json"},
        {"body": "${$}|json"},
        {"body": "${$.*}|json"},
        {"body": "${$..*}|json"},
        {"body": "${$.responses[?length(@) > 0]}|json"},
        {"body": "${$.responses[?@ == 'x']}|json"},
        {"body": "${$.responses[?@ < 'x']}|json"},
        {"body": "${$.responses[?search(@, 'x')]}|json"},
        {"body": "${ONE.a}"},
        {"body": "${$.a}"},
        {"body": "${$.a[*]}"},
        {"body": "${$.ONE[*].a}"},
        {"body": "${a}"},
        {"body": {"b": ["${a.b}|json"]}},
        {"body": "${$.ONE.a}"},
        {"headers": {"X-A": "${$.*}"}},
        {"headers": {"X-A": "${ONE}"}},
        {"url": "http://target.test/${ONE}"},
    ],
)
def test_bytes_that_are_no_text_fail_the_step_that_needs_them(field: dict[str, Any]) -> None:
    """`template`, whose message says `not_text`: nothing is sent instead of them (section 4.3)."""
    steps = [
        {"url": "http://target.test/1", "respEnvName": "ONE"},
        {"url": "http://target.test/2", **field},
    ]
    rig = Rig(request=steps).triggered()
    rig.answer(200, b"\xd6\xd0")
    end = [one for one in rig.records if isinstance(one, AttemptEnded)][-1]
    assert end.error == "template"
    assert "not_text" in (end.message or "")


def test_bytes_that_are_no_text_end_no_more_than_what_needs_them() -> None:
    """A check that cannot be made ends the attempt, a notification that cannot be made itself alone."""
    first = {"url": "http://target.test/1", "respEnvName": "ONE"}
    checked = {"async": True, "timeoutSeconds": 600, "checkUrl": "http://target.test/c?z=${$.*}"}
    rig = Rig(request=[first], **checked).triggered()
    rig.answer(200, b"\xd6\xd0")
    rig.pass_time(60_000)
    end = [one for one in rig.records if isinstance(one, AttemptEnded)][-1]
    assert (end.error, "not_text" in (end.message or "")) == ("template", True)
    told = {"url": "http://caller.test/", "body": "${$.*}|json"}
    rig = Rig(request=[first], notification=[told]).triggered()
    rig.answer(200, b"\xd6\xd0")
    assert (rig.execution(1).state, rig.told()) == ("succeeded", [])
    # A named response that the templates leave alone may have any bytes
    rig = Rig(
        Surroundings(environment={"PLACE": "here"}),
        request=[{"url": "http://t.test/1"}, {"url": "http://t.test/2", "body": "${jobId} ${PLACE}"}],
    ).triggered()
    rig.answer(200, b"\xd6\xd0")
    assert rig.sent_body() == "job here"


@each_row(
    ("body", "message"),
    [
        ({"message": "warehouse is on fire"}, "warehouse is on fire"),
        ({"title": "T", "message": "m", "detail": "d"}, "d"),
        ({"error": {"message": "inner"}, "title": "T"}, "inner"),
        ({"error": "e", "msg": "m"}, "e"),
        ({"detail": "", "message": 7, "msg": "m"}, "m"),
        ({"title": "T"}, "T"),
        ({"code": 1}, "the target answered 500"),
        ([1], "the target answered 500"),
        (None, "the target answered 500"),
        (b"\xd6\xd0", "the target answered 500"),
        (b"\n  no stock \r\nTraceback", "no stock"),
        ({"detail": "x" * 5000}, "x" * 4095 + "…"),
        ({"errorMessage": "no stock", "errorType": "Error"}, "no stock"),
        ({"errors": [{"message": "no field"}], "data": None}, "no field"),
        ({"errors": ["first", "second"]}, "first"),
        ({"detail": [{"loc": ["body", "n"], "msg": "n is missing"}]}, "n is missing"),
        ({"error": {"message": "inner"}, "msg": "m"}, "m"),
        (b'"no stock"', "no stock"),
        (b'[{"message": "of an array"}]', "of an array"),
        (b"{broken json", "{broken json"),
        (b"caf\xe9 is closed", "caf\\xe9 is closed"),
        (b'{"message": "caf\xe9 is closed"}', "caf\\xe9 is closed"),
        (b"\x89PNG\xff\xfe\xfd\xfc", "the target answered 500"),
        (b"\x1b[31mno\x00 stock\x07\x1b[0m", "no  stock"),
        (
            b"<!doctype html>\n<html><head><style>b{}</style>\n<title>502 Bad &amp; Gateway</title></head>",
            "502 Bad & Gateway",
        ),
        (b"<html><head><script>x</script></head><body><h1>Down\n for repair</h1>nginx", "Down for repair"),
        (b"<?xml version='1.0'?><Fault><faultstring>no stock</faultstring></Fault>", "no stock"),
        (b"<html></html>", "the target answered 500"),
        (b"<title" * 50_000, ("<title" * 700)[:4095] + "…"),
    ],
)
def test_the_message_of_a_failure_is_the_targets_own(body: object, message: str) -> None:
    """A member of its JSON object, else the first line of its text, cut (SPEC section 5)."""
    rig = Rig().triggered()
    rig.answer(500, body)
    assert [one.message for one in rig.records if isinstance(one, AttemptEnded)] == [message]


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
    assert (rig.head.active, rig.head.pause_reason) == (False, "gone")
    assert rig.of(Noted, rig.records)[-1].kind == "jobGone"
    rig.pass_time(60_000)
    assert len(rig.states()) == 1
    rig.deliver(Activated())
    assert (rig.head.active, rig.head.pause_reason) == (True, None)


def test_410_alone_is_an_answer() -> None:
    """Without the header it is a failure like any other."""
    rig = Rig(request=[{"url": "service://shop/x"}], retry=[{"errorEquals": "410"}]).triggered()
    rig.answer(410)
    assert rig.states() == [S.FAILED]
    assert rig.summary.state == "active"
    # A step that names 410 as a success ends with it, at the first instance
    rig = parted({"url": "service://shop/x", "successCodes": [410]}, "a", route="random")
    answer(rig, 0, 410, headers=GONE)
    assert rig.states() == [S.SUCCEEDED]
    # Each instance has a part of its own: the execution fails, the job goes on
    rig = parted(SHARDED, "a", "b")
    answer(rig, 0, 410, headers=GONE)
    answer(rig, 1)
    assert (rig.execution(1).error, rig.summary.state) == ("partial", "active")


def test_a_gone_job_lets_go_of_what_waits_for_its_timer() -> None:
    """Queued firings are skipped as `gone`; waiting triggers were requested and stay."""
    rig = Rig(timer={"dueTime": "0s", "period": "1s"}, overlapPolicy="queue").create()
    rig.pass_time(1_000)
    rig.deliver(Triggered())
    rig.answer(410, headers=GONE)
    assert rig.execution(2).reason == "gone"
    assert rig.execution(3).state is S.PROCESSING
    assert (1_000, "skipped", "gone") in rig.ledger()
    # Somebody's pause keeps its reason and its moment
    rig = parted({"url": "service://shop/x"}, "a", route="random")
    rig.deliver(Paused(drain=True))
    answer(rig, 0, 410, headers=GONE)
    rig.resolve()
    assert rig.execution(1).reason == "gone"
    assert rig.head.pause_reason != "gone"


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
    assert (rig.summary.state, rig.head.pause_reason) == ("paused", "gone")
    (step,) = steps_of(rig)
    assert (step.instance, step.exchange.status, step.exchange.response_body) == ("b", 410, b'{"which": "b"}')
    # The search goes on without those that do not know the job; none left, the job is paused
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


def test_a_job_that_asks_for_it_keeps_what_it_was_answered_last() -> None:
    """Whole, with status and type, of the attempt that succeeded (SPEC section 2, `keepResult`)."""
    rig = Rig(keepResult=True, request=[{"url": "http://target.test/"}] * 2, retry=[{"errorEquals": "500"}])
    rig.triggered()
    rig.answer(200, {"step": 0})
    rig.answer(500, {"step": 1})
    rig.pass_time(1_000)
    rig.answer(200, {"step": 0})
    assert rig.of(ResultKept, rig.records) == []
    token = feedback_token(b"key", "uid", 2)
    rig.answer(201, f"<p>{token}</p>".encode() * 2_000, headers={"Content-Type": "text/html"})
    (kept,) = rig.of(ResultKept, rig.records)
    assert kept == ResultKept(1, b"<p>***</p>" * 2_000, 201, "text/html", masked=True)
    plain = Rig().triggered()
    plain.answer(200, {"step": 0})
    assert plain.of(ResultKept, plain.records) == []
