"""Answers are read leniently, requests strictly: old and new versions live side by side (SPEC section 16)."""

from typing import Any

import pytest
from pydantic import ValidationError

from client_sdk.models import (
    Claim,
    Completion,
    Heartbeat,
    InstanceRegistration,
    ModelError,
    Renewal,
    ServiceDeclaration,
    WireModel,
    answers,
    parse_model,
)
from tests.rows import each_row

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


def test_a_word_of_a_later_version_is_kept() -> None:
    """A state that this version does not know is that text."""
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
