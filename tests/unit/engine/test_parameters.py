"""`paramsSchema`: what a schema may be, and what it says about a trigger's parameters (SPEC section 2)."""

from typing import Any

import pytest

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.engine.parameters import MOST, check_parameters, check_schema
from tests.unit.engine.rig import Rig


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        {},
        {"type": "object", "properties": {"a": {"pattern": "^a+$"}}, "required": ["a"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"pattern": r"\z"},
        {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}}},
    ],
)
def test_schemas_that_hold(schema: object) -> None:
    """JSON Schema 2020-12 is taken as it is, patterns as RE2 knows them."""
    assert check_schema(schema) == []


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "objekt"}, "/type"),
        ({"properties": {"a/b": {"type": 5}}}, "/properties/a~1b/type"),
        ({"properties": {"a": {"pattern": "(?=x)"}}}, "/properties/a/pattern"),
        ({"allOf": [{}, {"patternProperties": {"(?<x": {}}}]}, "/allOf/1/patternProperties/(?<x"),
        ({"$ref": "http://elsewhere.test/schema"}, "/$ref"),
        ({"$ref": "#/$defs/absent"}, "/$ref"),
        ({"$ref": "#/title", "title": "no schema"}, "/$ref"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, "/$ref"),
        ({"$ref": "#/x/y", "x": 5}, "/$ref"),
        ({"$ref": "#/x", "x": {"type": 5}}, "/$ref"),
        ({"$dynamicRef": "#absent"}, "/$dynamicRef"),
        ({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "/items/$schema"),
        ({"$id": "http://elsewhere.test/"}, "/$id"),
        ({"unevaluatedProperties": False}, "/unevaluatedProperties"),
    ],
)
def test_schemas_that_are_refused(schema: object, pointer: str) -> None:
    """What is no schema, or could lead outside or hang, is a problem with its pointer."""
    assert [problem.pointer for problem in check_schema(schema)] == ["/paramsSchema" + pointer]


@pytest.mark.parametrize(
    ("schema", "parameters", "pointers"),
    [
        (False, {}, [""]),
        ({"required": ["a"]}, {}, [""]),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "y"}, ["/a"]),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "xy"}, []),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": 5}, []),
        ({"patternProperties": {"^a": {"type": "string"}}}, {"ab": 1, "b": 1}, ["/ab"]),
        ({"properties": {"a": {"patternProperties": {"": False}}}}, {"a": 1}, []),
        ({"additionalProperties": False, "patternProperties": {"^a": True}}, {"ab": 1, "b": 1}, ["/b"]),
        ({"additionalProperties": {"type": "string"}, "properties": {"a": {}}}, {"a": 1, "b": 1}, ["/b"]),
        ({"properties": {"a": {"additionalProperties": False}}}, {"a": 1}, []),
        ({"$ref": "#"}, {}, [""]),
        ({"properties": {"a": {"multipleOf": 0.5}}}, {"a": 10**400}, [""]),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "x\ud800"}, []),
    ],
)
def test_parameters_are_judged(schema: object, parameters: object, pointers: list[str]) -> None:
    """Each flaw has its pointer; nothing that a schema or a parameter holds raises."""
    assert check_schema(schema) == []
    assert [problem.pointer for problem in check_parameters(schema, parameters)] == pointers


def test_patterns_never_hang() -> None:
    """A pattern that would take for ever elsewhere is linear, also in the names of parameters."""
    schema = {"patternProperties": {"^(a+)+$": {"pattern": "^(a+)+$"}}, "additionalProperties": False}
    name = "a" * 5_000 + "!"
    assert [one.code for one in check_parameters(schema, {name: 1, "a": name})] == ["params", "params"]


def test_no_more_problems_than_can_be_read() -> None:
    """A list of problems ends somewhere."""
    assert (
        len(check_parameters({"additionalProperties": False}, dict.fromkeys("abcdefghijklmnopqrstuvwxyz")))
        == MOST
    )


def test_a_trigger_is_checked() -> None:
    """Parameters that the schema refuses start nothing and use up no number."""
    schema: dict[str, Any] = {
        "type": "object",
        "required": ["day"],
        "properties": {"day": {"type": "integer"}},
    }
    rig = Rig(paramsSchema=schema).create()
    refusal = rig.deliver(Triggered(params=b'{"day":"x"}')).reply
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.pointer) == (RefusalCode.INVALID, "/day")
    assert rig.summary.execute_number == 0
    rig.deliver(Triggered(params=b'{"day":1}'))
    assert rig.states() == [ExecutionState.PROCESSING]


def test_the_record_of_an_execution_has_its_parameters() -> None:
    """A replay runs with the replayed execution's own parameters (SPEC section 10): they are recorded."""
    rig = Rig().create()
    rig.deliver(Triggered(params=b'{"day": "mon"}'))
    rig.answer()
    assert rig.execution(1).state is ExecutionState.SUCCEEDED
    assert (rig.execution(1).params, rig.execution(1).params_complete) == (b'{"day": "mon"}', True)
    rig.deliver(Triggered())
    assert rig.execution(2).params == b"{}"
