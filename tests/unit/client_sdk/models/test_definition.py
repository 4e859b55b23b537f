"""What a definition may hold, what is refused where, and its schema (SPEC sections 2, 3, 4, 5, 6 and 7)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from client_sdk.models import JobDefinition, ModelError, RequestStep, parse_definition
from client_sdk.models.definition_schema import DESCRIPTIONS, definition_schema
from tests.rows import each_row
from tests.unit.docs.pages import definitions

PLAIN: dict[str, Any] = {
    "jobName": "report",
    "request": [{"url": "http://target.example/run"}],
}


def parse(**members: Any) -> JobDefinition:
    return parse_definition(PLAIN | members)


def refuse(**members: Any) -> list[tuple[str, str]]:
    with pytest.raises(ModelError) as caught:
        parse(**members)
    assert all(problem.message for problem in caught.value.problems)
    return [(problem.pointer, problem.code) for problem in caught.value.problems]


def step(**members: Any) -> list[dict[str, Any]]:
    return [{"url": "http://target.example/run"} | members]


def test_defaults_are_those_of_the_table() -> None:
    """A definition of required members alone has the defaults of SPEC section 2."""
    definition = parse()
    assert (definition.creator, definition.creator_name) == (None, None)
    assert definition.active is True
    assert definition.timer is None
    assert definition.asynchronous is False
    assert (definition.check_rate_seconds, definition.timeout_seconds) == (1, 60)
    assert (definition.max_retries, definition.qos, definition.max_concurrency) == (5, 0, 1)
    assert (definition.overlap_policy, definition.queue_limit, definition.start_policy) == (
        "skip",
        100,
        "auto",
    )
    assert definition.request[0].method == "POST"
    assert definition.request[0].success_codes == ["2xx"]
    assert not definition.request[0].has_body
    # `3.0` and `1e2` are integers of JSON Schema, which describes the format; they are kept as integers
    one = {"url": "http://a.test/", "successCodes": [2e2, "3xx"], "followRedirects": 1.0}
    job = parse(
        maxRetries=3.0,
        maxConcurrency=1e2,
        qos=1.0,
        active=0.0,
        request=[one],
        retry=[{"errorEquals": "500", "maxAttempts": 4.0}],
    )
    assert json.dumps([job.max_retries, job.max_concurrency, job.qos, job.active]) == "[3, 100, 1, false]"
    assert json.dumps([job.request[0].success_codes, job.request[0].follow_redirects]) == '[[200, "3xx"], 1]'
    assert repr(job.retry[0].max_attempts) == "4"
    # A member that is null has its default; the body null is a body (SPEC section 4)
    definition = parse(objectId=None, retry=None, request=step(body=None, sign=None))
    assert definition.retry == []
    assert definition.request[0].has_body
    assert definition.request[0].sign is None


@each_row(("given_", "meant"), [(0, False), (1, True), (False, False), (True, True)])
def test_active_is_a_bit_or_a_bool(given_: object, meant: bool) -> None:
    """`active` takes 0, 1, true and false (SPEC section 2)."""
    assert parse(active=given_).active is meant


def test_timer_may_be_a_string() -> None:
    """`timer` is an object, or a string holding one; an empty one is no timer (SPEC section 2)."""
    assert (
        parse(timer='{"dueTime":"0s","period":"5m"}').timer
        == parse(timer={"dueTime": "0s", "period": "5m"}).timer
    )
    assert parse(timer="").timer is None
    # A `checkUrl` given as a string is a GET of that url
    assert (
        parse(checkUrl="http://a/").check_url
        == parse(checkUrl={"method": "GET", "url": "http://a/"}).check_url
    )
    # `errorEquals` and `stateEquals` are a string or a list, kept as given
    definition = parse(
        retry=[{"errorEquals": "500"}, {"errorEquals": ["5xx", "timeout"]}],
        notification=[{"url": "http://a/", "stateEquals": ""}, {"url": "http://a/"}],
    )
    assert [policy.error_equals for policy in definition.retry] == ["500", ["5xx", "timeout"]]
    assert [entry.keys for entry in definition.notification] == [frozenset(), frozenset()]
    # The fields for `service://` and `queue://` are part of the wire format (SPEC section 4)
    routed = step(route="shard", tags=["a"], parallelism=2, priority=-1, leaseSeconds=60, sign="main")[0]
    assert isinstance(parse(request=[routed]).request[0], RequestStep)
    # `post` and `POST` are the same method, so that equal definitions compare equal
    assert parse(request=step(method="put")).request[0].method == "PUT"


@each_row(
    ("members", "pointer", "code"),
    [
        ({"jobNmae": "x"}, "/jobNmae", "unknown_field"),
        ({"asynchronous": True}, "/asynchronous", "unknown_field"),
        ({"job_name": "x"}, "/job_name", "unknown_field"),
        ({"foo": None}, "/foo", "unknown_field"),
        ({"a/b~c": 1}, "/a~1b~0c", "unknown_field"),
        ({"jobName": None}, "/jobName", "required"),
        ({"jobName": ""}, "/jobName", "empty"),
        ({"jobName": 5}, "/jobName", "type"),
        ({"jobName": "a\x00"}, "/jobName", "nul"),
        ({"jobName": "\ud800"}, "/jobName", "surrogate"),
        ({"jobId": "-a"}, "/jobId", "pattern"),
        ({"jobId": "a" * 129}, "/jobId", "pattern"),
        ({"jobId": "a\n"}, "/jobId", "pattern"),
        ({"active": 2}, "/active", "type"),
        ({"active": "1"}, "/active", "type"),
        ({"active": 1.5}, "/active", "type"),
        ({"maxRetries": 3.5}, "/maxRetries", "type"),
        ({"maxRetries": True}, "/maxRetries", "type"),
        ({"maxRetries": 1e300}, "/maxRetries", "range"),
        ({"qos": True}, "/qos", "type"),
        ({"qos": 2}, "/qos", "choice"),
        ({"async": 1}, "/async", "type"),
        ({"timeoutSeconds": "5"}, "/timeoutSeconds", "type"),
        ({"timeoutSeconds": True}, "/timeoutSeconds", "type"),
        ({"timeoutSeconds": -1}, "/timeoutSeconds", "range"),
        ({"timeoutSeconds": float("nan")}, "/timeoutSeconds", "range"),
        ({"timeoutSeconds": float("inf")}, "/timeoutSeconds", "range"),
        ({"timeoutSeconds": 10**30}, "/timeoutSeconds", "range"),
        ({"checkRateSeconds": 0.05}, "/checkRateSeconds", "range"),
        ({"leadSeconds": 3600.1}, "/leadSeconds", "range"),
        ({"maxRetries": 1.5}, "/maxRetries", "type"),
        ({"maxRetries": -1}, "/maxRetries", "range"),
        ({"maxConcurrency": 0}, "/maxConcurrency", "range"),
        ({"overlapPolicy": "queued"}, "/overlapPolicy", "choice"),
        ({"labels": {"a": 1}}, "/labels/a", "type"),
        ({"labels": {"a:b": "c"}}, "/labels/a:b", "label"),
        ({"labels": {"": "c"}}, "/labels/", "label"),
        ({"labels": {"[key]": 1}}, "/labels/[key]", "type"),
        ({"paramsSchema": 5}, "/paramsSchema", "type"),
        ({"timer": "soon"}, "/timer", "invalid"),
        ({"timer": '{"period":1}'}, "/timer/period", "type"),
        ({"timer": {"perod": "1m"}}, "/timer/perod", "unknown_field"),
        ({"timer": {"misfire": "skip"}}, "/timer/misfire", "type"),
        ({"timer": {"misfire": {"policy": "none"}}}, "/timer/misfire/policy", "choice"),
        ({"checkUrl": 5}, "/checkUrl", "type"),
        ({"checkUrl": {"url": "x", "method": "POST"}}, "/checkUrl/method", "choice"),
        ({"checkUrl": {"url": "x", "body": 1}}, "/checkUrl/body", "unknown_field"),
        ({"request": []}, "/request", "empty"),
        ({"request": {}}, "/request", "type"),
        ({"request": [5]}, "/request/0", "type"),
        ({"request": [{}]}, "/request/0/url", "required"),
        ({"request": step(headers={"Host": "x"})}, "/request/0/headers/Host", "header"),
        ({"request": step(headers={"x-scheduling-a": "x"})}, "/request/0/headers/x-scheduling-a", "header"),
        ({"request": step(headers={"A": "x", "a": "x"})}, "/request/0/headers/a", "header"),
        ({"request": step(headers={"A": "x\r\nB: y"})}, "/request/0/headers/A", "header"),
        ({"request": step(headers={"A": 5})}, "/request/0/headers/A", "type"),
        ({"request": step(method="GE T")}, "/request/0/method", "pattern"),
        ({"request": step(followRedirects=6)}, "/request/0/followRedirects", "range"),
        ({"request": step(retryFrom="start")}, "/request/0/retryFrom", "choice"),
        ({"request": step(respEnvName="1a")}, "/request/0/respEnvName", "pattern"),
        ({"request": step(successCodes=["9xx"])}, "/request/0/successCodes/0", "invalid"),
        ({"request": step(successCodes=[])}, "/request/0/successCodes", "empty"),
        ({"request": step(body={"a": float("nan")})}, "/request/0/body/a", "range"),
        ({"request": step(body={"a": {1}})}, "/request/0/body/a", "type"),
        ({"request": step() * 501}, "/request", "too_many"),
        ({"retry": [{"errorEquals": "500"}] * 101}, "/retry", "too_many"),
        ({"notification": [{"url": "x"}] * 101}, "/notification", "too_many"),
        ({"request": step(specificInstances=["a", "é"])}, "/request/0/specificInstances/1", "pattern"),
        ({"request": step(specificInstances=[""])}, "/request/0/specificInstances/0", "pattern"),
        ({"request": step(specificInstances=["a"] * 1_001)}, "/request/0/specificInstances", "too_many"),
        ({"request": step(tags=["a"] * 101)}, "/request/0/tags", "too_many"),
        ({"request": step(tags=["a" * 129])}, "/request/0/tags/0", "too_long"),
        ({"request": step(leaseSeconds=0.99)}, "/request/0/leaseSeconds", "range"),
        ({"request": step(renewSeconds=0.09)}, "/request/0/renewSeconds", "range"),
        ({"retry": [{}]}, "/retry/0/errorEquals", "required"),
        ({"retry": [{"errorEquals": 500}]}, "/retry/0/errorEquals", "type"),
        ({"retry": [{"errorEquals": "500", "backoffRate": 0.5}]}, "/retry/0/backoffRate", "range"),
        ({"notification": [{"url": "x", "stateEquals": [5]}]}, "/notification/0/stateEquals", "type"),
        ({"notification": [{"url": "x", "dedupe": "on"}]}, "/notification/0/dedupe", "choice"),
    ],
)
def test_what_is_wrong_is_named(members: dict[str, Any], pointer: str, code: str) -> None:
    """Each wrong member is refused where it stands (SPEC section 2: unknown fields are refused)."""
    assert (pointer, code) in refuse(**members)


@each_row(
    "name",
    ["Host", "content-length", "CONNECTION", "Transfer-Encoding", "X-Scheduling-Job-Id", "x-scheduling-"],
)
@each_row("place", ["request", "checkUrl", "cancelUrl", "notification"])
def test_headers_that_the_platform_sets_are_refused(name: str, place: str) -> None:
    """In steps and everywhere else where something is sent (SPEC section 4)."""
    sent: Any = {"url": "http://target.example/", "headers": {name: "x"}}
    is_list = place in ("request", "notification")
    pointer = f"/{place}/0/headers/{name}" if is_list else f"/{place}/headers/{name}"
    assert refuse(**{place: [sent] if is_list else sent}) == [(pointer, "header")]
    allowed = {**sent, "headers": {"X-Host": "x", "Idempotency-Key": "own", "Traceparent": "own"}}
    parse(**{place: [allowed] if is_list else allowed})


def test_everything_wrong_is_said_at_once() -> None:
    """A refusal holds all that is wrong, not only the first (SPEC section 10)."""
    assert {pointer for pointer, _ in refuse(qos=7, jobNmae="x", request=[{}])} == {
        "/qos",
        "/jobNmae",
        "/request/0/url",
    }
    # Looking for the right name has its limit, so that no definition keeps the service busy
    with pytest.raises(ModelError) as caught:
        parse(**{f"jobNam{index:03}": 1 for index in range(300)})
    messages = [problem.message for problem in caught.value.problems]
    assert len(messages) == 300
    assert sum("did you mean" in message for message in messages) == 50
    # A body is at most 64 levels deep (SPEC section 10), also in the SDK
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert refuse(request=step(body=deep))[0][1] == "too_deep"


def test_a_typo_is_answered_with_the_right_name() -> None:
    """A message names the remedy (house rule): the field that was probably meant."""
    with pytest.raises(ModelError, match="did you mean 'jobName'"):
        parse(jobNmae="x")


@each_row(
    ("members", "remedy"),
    [
        ({"timeing": {}}, "did you mean 'timer'?"),
        ({"timeout": 60}, "did you mean 'timeoutSeconds'?"),
        ({"retry": [{"errorEquals": "500", "interval": 3}]}, "did you mean 'intervalSeconds'?"),
        ({"timer": {"kind": "timeing"}}, "the kind follows from dueTime and period"),
        ({"timer": {"cron": "0 0 9 * * ?"}}, "a cron expression is written as period"),
        ({"timer": {"duetime": "0s"}}, "did you mean 'dueTime'?"),
        ({"timer": {"misfire": {"graceSecond": 1}}}, "did you mean 'graceSeconds'?"),
        ({"timer": {"misfire": "fire_once"}}, 'not "fire_once"; write {"policy": "fire_once"}'),
        ({"timer": {"misfire": "never"}}, "its members are policy, graceSeconds, limit"),
        ({"request": ["http://x/"]}, "its members are method, url, serviceName, headers, …"),
        ({"retry": [{"errorEquals": "500", "maxAttemps": 3}]}, "did you mean 'maxAttempts'?"),
        ({"cron": "0 0 9 * * ?"}, "a cron expression is written as period of timer"),
        ({"period": "5m"}, "it is a member of timer"),
        ({"retries": 3}, '[{"errorEquals": "*", "maxAttempts": 3}]'),
        ({"concurrencyPolicy": "Forbid"}, "is written as overlapPolicy"),
        ({"suspend": True}, "a job is created paused by active 0"),
        ({"errorFrom": "$.code"}, "it is a member of a step of request"),
        ({"url": "http://x/"}, "it is a member of a step of request"),
        ({"timer": {"zzz": 1}}, "remove it or check its spelling"),
    ],
)
def test_a_typo_inside_is_answered_as_well(members: dict[str, Any], remedy: str) -> None:
    """The names that are suggested are those of the object in which the unknown one stands."""
    with pytest.raises(ModelError) as caught:
        parse(**members)
    assert caught.value.problems[0].message.endswith(remedy)


@each_row("data", [None, 5, "x", [], [1], True])
def test_only_an_object_is_a_definition(data: object) -> None:
    """Anything but an object is refused."""
    with pytest.raises(ModelError):
        parse_definition(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
MEMBERS = sorted({field.alias or name for name, field in JobDefinition.model_fields.items()})


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(MEMBERS), JSON))
def test_nothing_but_a_model_error_leaves_the_parser(members: dict[str, Any]) -> None:
    """Whatever JSON comes in, the answer is a definition or a ModelError with pointers."""
    try:
        parse(**members)
    except ModelError as error:
        json.dumps([problem._asdict() for problem in error.problems]).encode()


def test_a_label_is_named_without_a_colon() -> None:
    """Filters write `label=name:value`: a name with a colon, or none, is never found (SPEC section 10)."""
    for name in ("a:b", ""):
        with pytest.raises(ModelError, match="without ':'"):
            parse(labels={name: "x"})


def test_it_is_a_schema_of_2020_12() -> None:
    """It names its dialect and is valid in it."""
    schema = definition_schema()
    assert schema["$schema"].endswith("2020-12/schema")
    Draft202012Validator.check_schema(schema)


@each_row(("page", "definition"), definitions())
def test_the_definitions_of_the_documentation_fit(page: str, definition: dict[str, Any]) -> None:
    """All that a service accepts there."""
    Draft202012Validator(definition_schema()).validate(definition)


@each_row(
    "wrong",
    [
        {"jobNam": "x"},
        {"qos": 2},
        {"overlapPolicy": "wait"},
        {"request": []},
        {"request": [{"url": ""}]},
        {"retry": [{"errorEquals": "500", "backoffRate": 0.5}]},
        {"labels": {"a:b": "c"}},
        {"jobId": "a b"},
        {"timer": {"cron": "* * * * *"}},
    ],
)
def test_what_is_wrong_does_not_fit(wrong: dict[str, Any]) -> None:
    """Unknown members, words and limits."""
    right: dict[str, Any] = {"jobName": "a", "request": [{"url": "http://t.test/"}]}
    validator = Draft202012Validator(definition_schema())
    assert validator.is_valid(right)
    assert not validator.is_valid(right | wrong)


def test_each_member_has_a_title_and_a_description() -> None:
    """And defaults stand where there are some; no text is left over."""
    schema = definition_schema()
    models = {"JobDefinition": schema, **schema["$defs"]}
    for name, model in models.items():
        assert model["title"]
        assert model["description"]
        for member, described in model["properties"].items():
            assert described["title"][0].isupper(), (name, member)
            assert described["description"].endswith("."), (name, member)
    for name, texts in DESCRIPTIONS.items():
        assert texts.keys() == models[name]["properties"].keys()
    assert schema["properties"]["maxRetries"]["default"] == JobDefinition.model_fields["max_retries"].default
    assert schema["properties"]["jobName"]["title"] == "Job Name".capitalize()
