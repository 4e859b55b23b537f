"""The JSON Schema of a definition (SPEC section 10)."""

from typing import Any

from jsonschema import Draft202012Validator

from client_sdk.models import JobDefinition
from client_sdk.models.definition_schema import DESCRIPTIONS, definition_schema
from tests.rows import each_row
from tests.unit.docs.pages import definitions


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
