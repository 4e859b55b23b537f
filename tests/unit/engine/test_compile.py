"""What is checked when a job is created: problems and warnings with their pointers (SPEC sections 2, 4)."""

from typing import Any

import pytest

from client_sdk.models import parse_definition
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.engine.compile import compile_definition, compile_stored, fingerprint
from scheduler_service.engine.program import Policy, Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import definition, program

URL = "http://target.test/"


def problems(**members: Any) -> list[tuple[str, str]]:
    """(pointer, code) of everything that is wrong with a definition."""
    with pytest.raises(DefinitionError) as caught:
        program(**members)
    return [(one.pointer, one.code) for one in caught.value.problems]


@each_row("url", ["queue://work", "QUEUE://work"])
def test_a_queue_is_refused_where_there_are_none(url: str) -> None:
    """Where jobs run without a server, with what to do instead."""
    posted = parse_definition(definition(request=[{"url": URL}, {"url": url}]))
    with pytest.raises(DefinitionError) as caught:
        compile_definition(posted, Surroundings(queues=False))
    (one,) = [one for one in caught.value.problems if one.code == "not_available"]
    assert one.pointer == "/request/1/url"
    assert "use service://" in one.message
    if url.startswith("queue"):
        assert compile_definition(posted, Surroundings()).program.job_id


@each_row("url", ["queue://${TOKEN}", "queue://x-${TOKEN}", "${QUEUE}-${TOKEN}", "${TOKEN_QUEUE}"])
def test_a_queue_has_no_name_that_is_hidden_elsewhere(url: str) -> None:
    """It would be shown by lists and metrics (14)."""
    known = {"TOKEN": "tok-1234", "QUEUE": "queue://q", "TOKEN_QUEUE": "queue://q"}
    around = Surroundings(environment=known, is_hidden=lambda name: name.startswith("TOKEN"))
    assert refused(around, request=[{"url": url}]) == [("/request/0/url", "invalid")]
    for fine in ("${QUEUE}", "http://${TOKEN}.test/"):
        compile_definition(parse_definition(definition(request=[{"url": fine}])), around)


TOPIC = "topic://events/jobs/ended"
ON_DAPR = Surroundings(topics=True)


def refused(surroundings: Surroundings, **members: Any) -> list[tuple[str, str]]:
    """(pointer, code) of what is wrong with a definition in these surroundings."""
    posted = parse_definition(definition(**members))
    with pytest.raises(DefinitionError) as caught:
        compile_definition(posted, surroundings)
    return [(one.pointer, one.code) for one in caught.value.problems]


@each_row("url", [TOPIC, "TOPIC://events/x", "topic://events/${schedulingJobId}"])
def test_a_topic_is_for_notifications_on_dapr(url: str) -> None:
    """Everywhere else it is refused by name (SPEC section 9)."""
    posted = parse_definition(definition(notification=[{"url": url}]))
    assert compile_definition(posted, ON_DAPR).program.notifications
    assert refused(Surroundings(), notification=[{"url": url}]) == [("/notification/0/url", "not_available")]
    assert refused(ON_DAPR, request=[{"url": url}]) == [("/request/0/url", "not_available")]
    assert refused(ON_DAPR, cancelUrl={"url": url}) == [("/cancelUrl/url", "not_available")]


@each_row(
    ("members", "pointer"),
    [
        ({"url": "topic://events"}, "url"),
        ({"url": "topic://events/"}, "url"),
        ({"url": "topic://events/x?y=1"}, "url"),
        ({"url": "topic://../state/x"}, "url"),
        ({"url": "topic://events/../x"}, "url"),
        ({"url": TOPIC, "method": "PUT"}, "method"),
        ({"url": TOPIC, "headers": {"X-Other": "1"}}, "headers/X-Other"),
    ],
)
def test_what_has_no_place_in_an_event_is_refused(members: dict[str, Any], pointer: str) -> None:
    """Rather than silently ignored."""
    assert refused(ON_DAPR, notification=[members]) == [(f"/notification/0/{pointer}", "invalid")]


@each_row(
    ("members", "pointer", "code"),
    [
        ({"request": [{"url": "http://target.test/${"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": "ftp://target.test/"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": URL, "serviceName": "a shop"}]}, "/request/0/serviceName", "invalid"),
        ({"request": [{"url": URL, "serviceName": "{other}"}]}, "/request/0/serviceName", "invalid"),
        ({"request": [{"url": URL, "serviceName": "127.0.0.1"}]}, "/request/0/serviceName", "invalid"),
        ({"request": [{"url": "service://é/x"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": "http://${$.host}/"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": "http://t.test/${schedulingNope}"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": "http://t.test:65536/"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": "http://:80/"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": "http://me:secret@t.test/"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": "service://{foo}/x"}]}, "/request/0/url", "invalid"),
        ({"checkUrl": {"url": "service://name:80/x"}}, "/checkUrl/url", "invalid"),
        ({"cancelUrl": {"url": "http://t.test:x/"}}, "/cancelUrl/url", "invalid"),
        ({"notification": [{"url": "http://t.test:0/"}]}, "/notification/0/url", "invalid"),
        ({"request": [{"url": "system://clean"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": "queue:///q"}]}, "/request/0/url", "invalid"),
        ({"request": [{"url": URL, "headers": {"X~A": "${"}}]}, "/request/0/headers/X~0A", "invalid"),
        ({"request": [{"url": URL, "headers": {"X-A": "${$.a}|json"}}]}, "/request/0/headers/X-A", "invalid"),
        ({"request": [{"url": URL, "body": {"a/b": ["x${a}|json"]}}]}, "/request/0/body/a~1b/0", "invalid"),
        ({"request": [{"url": URL, "body": "${$.a}|json${$.b}|json"}]}, "/request/0/body", "invalid"),
        ({"request": [{"url": URL, "serviceName": "${$[}"}]}, "/request/0/serviceName", "invalid"),
        ({"request": [{"url": URL, "timeoutSeconds": 60.001}]}, "/request/0/timeoutSeconds", "range"),
        ({"request": [{"url": URL, "body": "${schedulingNotifyBody}"}]}, "/request/0/body", "invalid"),
        ({"jobId": "clean"}, "/jobId", "reserved"),
        ({"jobId": "check-timers"}, "/jobId", "reserved"),
        ({"retry": [{"errorEquals": ""}]}, "/retry/0/errorEquals", "empty"),
        ({"retry": [{"errorEquals": "500"}, {"errorEquals": []}]}, "/retry/1/errorEquals", "empty"),
        ({"request": [{"url": URL, "respEnvName": "trigger"}]}, "/request/0/respEnvName", "reserved"),
        ({"request": [{"url": URL, "respEnvName": "responses"}]}, "/request/0/respEnvName", "reserved"),
        ({"request": [{"url": URL, "respEnvName": "schedulingMine"}]}, "/request/0/respEnvName", "reserved"),
        ({"request": [{"url": URL, "respEnvName": "schedulingJobId"}]}, "/request/0/respEnvName", "reserved"),
        (
            {"request": [{"url": URL, "respEnvName": "schedulingNotifyBody"}]},
            "/request/0/respEnvName",
            "reserved",
        ),
        ({"request": [{"url": URL, "respEnvName": "A"}] * 2}, "/request/1/respEnvName", "duplicate"),
        ({"checkUrl": {"url": "nowhere"}}, "/checkUrl/url", "invalid"),
        ({"checkUrl": {"url": URL, "timeoutSeconds": 61}}, "/checkUrl/timeoutSeconds", "range"),
        ({"cancelUrl": {"url": URL, "body": "${"}}, "/cancelUrl/body", "invalid"),
        ({"notification": [{"url": URL}, {"url": "x"}]}, "/notification/1/url", "invalid"),
        ({"timer": {"period": "x y"}}, "/timer/period", "invalid"),
        ({"timer": {"period": "external", "timezone": "Mars/Base"}}, "/timer/timezone", "unknown_zone"),
        ({"paramsSchema": {"type": 1}}, "/paramsSchema/type", "invalid"),
    ],
)
def test_what_is_refused(members: dict[str, Any], pointer: str, code: str) -> None:
    """Everything that can be known when the job is created is checked then, with a JSON Pointer."""
    assert problems(**members) == [(pointer, code)]


SIGNED = {"url": URL, "sign": "hooks"}
UNKNOWN = {"url": URL, "sign": "none"}


@each_row(
    ("members", "pointer", "code"),
    [
        ({"request": [SIGNED, UNKNOWN]}, "/request/1/sign", "unknown_secret"),
        ({"checkUrl": UNKNOWN}, "/checkUrl/sign", "unknown_secret"),
        ({"cancelUrl": UNKNOWN}, "/cancelUrl/sign", "unknown_secret"),
        ({"notification": [SIGNED, UNKNOWN]}, "/notification/1/sign", "unknown_secret"),
        ({"request": [{"url": "queue://work", "sign": "hooks"}]}, "/request/0/sign", "misplaced"),
        ({"notification": [{"url": TOPIC, "sign": "hooks"}]}, "/notification/0/sign", "misplaced"),
        ({"request": [{**SIGNED, "headers": {"Webhook-Id": "x"}}]},
         "/request/0/headers/Webhook-Id", "header"),
        ({"cancelUrl": {**SIGNED, "headers": {"webhook-signature": "x"}}},
         "/cancelUrl/headers/webhook-signature", "header"),
        ({"notification": [{**SIGNED, "headers": {"webhook-timestamp": "1"}}]},
         "/notification/0/headers/webhook-timestamp", "header"),
    ],
)  # fmt: skip
def test_what_cannot_be_signed_is_refused(members: dict[str, Any], pointer: str, code: str) -> None:
    """A name that is no secret of the tenant, what is not sent, and headers that the signature brings."""
    around = Surroundings(topics=True, judge_secret=lambda _, name: None if name == "hooks" else "no secret")
    with pytest.raises(DefinitionError) as caught:
        compile_definition(parse_definition(definition(**members)), around)
    assert [(one.pointer, one.code) for one in caught.value.problems] == [(pointer, code)]
    own_id = {**SIGNED, "headers": {"webhook-id": "x"}}
    taken = definition(request=[SIGNED], checkUrl=SIGNED, cancelUrl=SIGNED, notification=[own_id])
    assert compile_definition(parse_definition(taken), around).program.signs == {"hooks"}


def test_all_problems_come_at_once() -> None:
    """One answer names everything that is wrong."""
    found = problems(
        timer={"dueTime": "x", "period": "5m"},
        request=[{"url": "x", "respEnvName": "trigger"}],
        notification=[{"url": "y"}],
        paramsSchema={"type": 1},
    )
    assert [pointer for pointer, _ in found] == [
        "/timer/dueTime",
        "/request/0/url",
        "/notification/0/url",
        "/request/0/respEnvName",
        "/paramsSchema/type",
    ]
    # `jobId` comes from the path or the body
    assert problems(jobId=None) == [("/jobId", "required")]
    # The limit does not hide the problems that were found already (SPEC section 4: everything is said)
    steps = [{"url": "http://target.test/${"}, FULL, FULL, FULL]
    assert problems(request=steps) == [("/request/0/url", "invalid"), ("/request/3/body", "too_many")]
    # A list of problems ends somewhere
    assert len(problems(request=[{**STEP, "body": ["${"] * 1_000}])) == 100


def test_times_become_milliseconds() -> None:
    """Numbers of seconds may have decimals; misfire and jitter reach the timer."""
    made = program(
        timer={
            "period": "0 0 9 * * ?",
            "jitterSeconds": 1.5,
            "misfire": {"policy": "skip", "graceSeconds": 0.25, "limit": 7},
        },
        retry=[
            {"errorEquals": ["500", "x"], "intervalSeconds": 0.1, "maxIntervalSeconds": 2.5, "jitter": "full"}
        ],
        timeoutSeconds=0.0001,
        checkRateSeconds=0.1,
        leadSeconds=2,
    )
    assert (made.timer.jitter, made.timer.misfire_grace, made.timer.misfire_limit) == (1_500, 250, 7)
    usual, named = program(timer={"period": "5m"}).timer, program(timer={"period": "5m", "misfire": {}}).timer
    assert usual == named
    assert (usual.misfire_policy, usual.misfire_grace, usual.misfire_limit) == ("fire_once", 60_000, 100)
    assert made.policies == (Policy(frozenset({"500", "x"}), 100, ceiling=2_500, jitter="full"),)
    assert (made.timeout, made.check_rate, made.lead) == (1, 100, 2_000)


STEP = {"url": "http://target.test/"}
FULL = {**STEP, "body": ["${a}"] * 500}
HEADERS = dict.fromkeys("abcdefghijklmnopqrstuvwxyz", "${a." + "b" * 900 + "}")


@each_row(
    ("members", "pointer", "said"),
    [
        (
            {"request": [FULL, FULL, {"url": "http://target.test/x/${a}"}]},
            "/request/2/url",
            "1000 expressions",
        ),
        ({"request": [FULL, {**FULL, "headers": {"a": "${a}"}}]}, "/request/1/body", "1000 expressions"),
        (
            {"request": [FULL, FULL], "checkUrl": "http://target.test/${a}"},
            "/checkUrl/url",
            "1000 expressions",
        ),
        ({"request": [FULL, FULL], "notification": [STEP]}, "/notification/0/body", "1000 expressions"),
        ({"request": [{**STEP, "headers": HEADERS}]}, "/request/0/headers/w", "20000 characters"),
    ],
)
def test_a_definition_has_so_many_expressions_and_no_more(
    members: dict[str, Any], pointer: str, said: str
) -> None:
    """Reading expressions takes time: beyond the limit nothing more is read, and one problem says so."""
    with pytest.raises(DefinitionError) as caught:
        program(**members)
    assert [(one.pointer, one.code) for one in caught.value.problems] == [(pointer, "too_many")]
    assert said in caught.value.problems[0].message


GONE = {"url": "http://${GONE}/run"}


@each_row(
    ("members", "pointer"),
    [
        ({"request": [{"url": URL}, GONE]}, "/request/1"),
        ({"request": [{"url": "${GONE}/run"}]}, "/request/0"),
        ({"request": [{"url": "${GONE}"}]}, "/request/0/url"),
        ({"request": [{"url": URL, "headers": {"a": "${schedulingGone}"}}]}, "/request/0"),
        ({"request": [{"url": URL, "body": {"a": "${$.[}"}}]}, "/request/0"),
        ({"request": [{"url": "/x", "serviceName": "a b"}]}, "/request/0"),
        ({"request": [{"url": URL, "sign": "s", "headers": {"webhook-id": "x"}}]}, "/request/0"),
        ({"async": True, "checkUrl": GONE["url"]}, "/checkUrl"),
        ({"cancelUrl": GONE}, "/cancelUrl"),
        ({"notification": [{"url": URL}, GONE]}, "/notification/1"),
        ({"notification": [{"url": TOPIC}]}, "/notification/0"),
        ({"timer": {"period": "@daily", "timezone": "Mars/Base"}}, "/timer/timezone"),
        ({"timer": {"dueTime": "5s", "period": "x"}}, "/timer/period"),
        ({"timer": {"period": "0 0 0 32 * ?"}}, "/timer/period"),
    ],
)
def test_a_stored_definition_always_compiles(members: dict[str, Any], pointer: str) -> None:
    """What cannot be done any more is named; the rest of the job is what it was (SPEC section 2)."""
    stored = compile_stored(parse_definition(definition(**members)), Surroundings())
    assert [one.pointer for one in stored.program.problems] == [pointer]
    assert len(stored.program.steps) == len(members.get("request", [1]))
    whole = compile_stored(parse_definition(definition()), Surroundings())
    assert (whole.program.problems, whole.refused) == ((), ())


def test_a_call_of_a_stored_definition_takes_no_longer_than_the_setting() -> None:
    """A lower limit shortens the call and stops nothing; posted anew the definition is refused."""
    posted = parse_definition(definition(request=[{"url": URL, "timeoutSeconds": 50}]))
    stored = compile_stored(posted, Surroundings(http_timeout=10_000))
    assert stored.program.steps[0].target.timeout == 10_000
    assert (stored.program.problems, [one.code for one in stored.refused]) == ((), ["range"])
    with pytest.raises(DefinitionError):
        compile_definition(posted, Surroundings(http_timeout=10_000))
    # One that an earlier version took with more goes on with it
    body = {str(number): ["${$.a}"] * 400 for number in range(1)}
    posted = parse_definition(definition(request=[{"url": URL, "body": body}] * 3))
    with pytest.raises(DefinitionError, match="more than 1000 expressions"):
        compile_definition(posted, Surroundings())
    assert compile_stored(posted, Surroundings()).program.problems == ()


def test_equal_definitions() -> None:
    """Compared with defaults filled in, without `active` and `jobId`; a null body is not an absent one."""

    def mark(**members: Any) -> bytes:
        return fingerprint(parse_definition(definition(**members)))

    base = mark()
    same: list[dict[str, Any]] = [
        {"active": 0},
        {"jobId": "other"},
        {"retry": []},
        {"leadSeconds": 0},
        {"timer": '{"period":"external"}'},
        {"request": [{"url": "http://target.test/run", "method": "post", "successCodes": ["2XX"]}]},
    ]
    assert {mark(**members) for members in same} == {base}
    other: list[dict[str, Any]] = [
        {"qos": 1},
        {"request": [{"url": "http://target.test/run", "body": None}]},
        {"notification": [{"url": URL}]},
    ]
    assert base not in {mark(**members) for members in other}
    assert mark(notification=[{"url": URL}]) != mark(notification=[{"url": URL, "body": None}])
