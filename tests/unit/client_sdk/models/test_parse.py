"""Requests are read strictly, answers leniently; pointers lead into what was posted (SPEC sections 4, 13)."""

from typing import Any

import pytest
from pydantic import ValidationError

from client_sdk.models import (
    Claim,
    Completion,
    Heartbeat,
    InstanceRegistration,
    ModelError,
    Problem,
    Renewal,
    ServiceDeclaration,
    WireModel,
    answers,
    parse_definition,
    parse_model,
    point_to_posted,
)
from client_sdk.models.fields import LONGEST_ADDRESS, LONGEST_DESCRIPTION
from client_sdk.models.parse import HINTS
from client_sdk.models.request_bodies import Cancellation, NewCalendar
from tests.rows import each_row


@each_row(
    ("pointer", "definition", "expected"),
    [
        ("/checkUrl/url", {"checkUrl": "http://h/"}, "/checkUrl"),
        ("/checkUrl/url", {"checkUrl": {"url": "http://h/"}}, "/checkUrl/url"),
        ("/checkUrl", {"checkUrl": ""}, "/checkUrl"),
        ("/timer/misfire/limit", {"timer": "{}"}, "/timer"),
        ("/timer/period", {"timer": {"period": "x"}}, "/timer/period"),
        ("/checkUrls/url", {"checkUrl": "x"}, "/checkUrls/url"),
        ("/request/0/url", {"request": "x"}, "/request/0/url"),
        ("/request/0/url", {}, "/request/0/url"),
    ],
)
def test_a_pointer_leads_to_what_was_posted(
    pointer: str, definition: dict[str, object], expected: str
) -> None:
    """What was given as a text has no members (SPEC section 5)."""
    assert point_to_posted(pointer, definition) == expected


@each_row("member", ["dueTime", "ttl", "startAt", "endAt"])
@each_row("number", [1769907600, 1769907600000])
def test_an_epoch_for_a_moment_is_told_its_text(member: str, number: int) -> None:
    """Seconds and milliseconds since 1970 are no length of time."""
    posted = {"jobId": "j", "jobName": "n", "request": [{"url": "http://t.test"}], "timer": {member: number}}
    with pytest.raises(ModelError) as caught:
        parse_definition(posted)
    [problem] = caught.value.problems
    said = 'moments are written as RFC 3339: this one, counted from 1970, is "2026-02-01T01:00:00Z"'
    assert problem.message == f"{member} must be a string, not {number}; {said}"


def test_one_object_for_a_list_is_told_so() -> None:
    """As people write a job with one step."""
    posted = {"jobId": "j", "jobName": "n", "request": {"url": "http://t.test"}}
    with pytest.raises(ModelError, match=r"write it in \[ and \], as a list of one step"):
        parse_definition(posted)
    # Each error is told once, however often it was found
    problem = Problem("/a", "type", "a is wrong")
    assert ModelError([problem, problem]).problems == (problem,)


@each_row("member", ["period", "dueTime", "ttl"])
def test_a_number_for_a_duration_is_told_the_units(member: str) -> None:
    """As the text of that number is, which has no unit either."""
    posted = {"jobId": "j", "jobName": "n", "request": [{"url": "http://t.test"}], "timer": {member: 5}}
    with pytest.raises(ModelError) as caught:
        parse_definition(posted)
    [problem] = caught.value.problems
    said = f'{member} must be a string, not 5; name the unit: "5s", "5m", "5h" or "5d"'
    assert (problem.pointer, problem.message) == (f"/timer/{member}", said)


PLAIN: dict[str, Any] = {
    "jobName": "report",
    "creator": "001",
    "creatorName": "ops",
    "request": [{"url": "http://target.example/run"}],
}
URL = "http://target.example/x"


@each_row("method", ["CONNECT", "connect"])
@each_row(
    ("place", "pointer"),
    [
        ("request", "/request/0/method"),
        ("notification", "/notification/0/method"),
        ("cancelUrl", "/cancelUrl/method"),
    ],
)
def test_a_tunnel_is_no_request(method: str, place: str, pointer: str) -> None:
    """CONNECT opens a tunnel and asks nothing: refused when the job is created."""
    step = {"url": URL, "method": method}
    with pytest.raises(ModelError) as caught:
        parse_definition(PLAIN | {place: step if place == "cancelUrl" else [step]})
    assert [(one.pointer, one.code) for one in caught.value.problems] == [(pointer, "choice")]
    assert caught.value.problems[0].message.startswith("method must not be CONNECT")


BASE = "http://h/"


@each_row("model", [InstanceRegistration, ServiceDeclaration])
def test_an_address_has_a_longest_length(
    model: type[InstanceRegistration] | type[ServiceDeclaration],
) -> None:
    """So has what every list of instances shows; the error is one for people."""
    longest = BASE + "x" * (LONGEST_ADDRESS - len(BASE))
    assert parse_model(model, {"address": longest}).address == longest
    with pytest.raises(ModelError, match="at most 2048 characters"):
        parse_model(model, {"address": longest + "x"})


def test_a_description_too() -> None:
    """Of an instance; it may have lines, tags and reasons none."""
    assert parse_model(InstanceRegistration, {"description": "two\n\tlines"}).description
    for model, members in (
        (InstanceRegistration, {"description": "a\u202eb"}),
        (InstanceRegistration, {"description": "a\x1b[2J"}),
        (InstanceRegistration, {"tags": ["a\nb"]}),
        (Cancellation, {"reason": "a\nb"}),
    ):
        with pytest.raises(ModelError, match=r"must not contain the character U\+"):
            parse_model(model, members)
    longest = "x" * LONGEST_DESCRIPTION
    assert parse_model(InstanceRegistration, {"description": longest}).description == longest
    with pytest.raises(ModelError, match="at most 1024 characters"):
        parse_model(InstanceRegistration, {"description": longest + "x"})


TRIGGERED = {"executionId": "life-1", "executeNumber": 1, "state": "processing"}


def test_unknown_members_of_an_answer_are_kept() -> None:
    """A newer service may say more: nothing breaks, and nothing is lost."""
    read = answers.Triggered.model_validate(TRIGGERED | {"node": "n1"})
    assert (read.execution_id, read.execute_number, read.state) == ("life-1", 1, "processing")
    assert read.model_extra == {"node": "n1"}
    # What is none is no answer of a service
    with pytest.raises(ValidationError):
        answers.Triggered.model_validate(TRIGGERED | {"state": 7})
    # OpenAPI names the states that this version knows
    schema = answers.Triggered.model_json_schema(mode="serialization")
    assert "terminated" in schema["properties"]["state"]["enum"]
    # A state that this version does not know is that text
    assert answers.Triggered.model_validate(TRIGGERED | {"state": "frozen"}).state == "frozen"


@each_row(
    ("model", "value"),
    [
        (ServiceDeclaration, {}),
        (InstanceRegistration, {}),
        (Heartbeat, {}),
        (Claim, {"instanceId": "one"}),
        (Renewal, {}),
        (Completion, {"status": "succeed"}),
    ],
)
def test_unknown_members_of_a_request_are_refused(model: type[WireModel], value: dict[str, Any]) -> None:
    """So that a typo is never silently ignored."""
    assert parse_model(model, value)
    with pytest.raises(ModelError) as caught:
        parse_model(model, value | {"colour": "blue"})
    assert [(one.pointer, one.code) for one in caught.value.problems] == [("/colour", "unknown_field")]


def find_patterns(schema: object) -> set[str]:
    """The patterns anywhere in a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(find_patterns, schema))
    if not isinstance(schema, dict):
        return set()
    own = schema.get("pattern")
    return find_patterns([*schema.values()]) | ({own} if isinstance(own, str) else set())


def test_no_regular_expression_is_a_remedy() -> None:
    """Each pattern of a member is told in words."""
    patterns = find_patterns([model.model_json_schema() for model in WireModel.__subclasses__()])
    assert patterns - HINTS.keys() == {"^[1-5][xX]{2}$"}  # of a class of statuses, which is told with them
    with pytest.raises(ModelError) as refused:
        parse_model(NewCalendar, {"country": "de"})
    assert refused.value.problems[0].message.endswith("in capitals: CN, DE-BY")
