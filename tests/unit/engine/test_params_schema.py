"""`paramsSchema`: what a schema may be, and what it says about a trigger's parameters (SPEC section 2)."""

from typing import Any

import pytest

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.replies import RefusalCode
from scheduler_service.domain.turn_events import Triggered
from scheduler_service.engine.params_schema import (
    CHECKS_MAX,
    LONGEST_MESSAGE,
    PATTERN_CHARACTERS_MAX,
    PATTERN_CLASSES_MAX,
    PATTERNS_MAX,
    PROBLEMS_MAX,
    VALUES_MAX,
    check_parameters,
    check_schema,
)
from tests.rows import each_row
from tests.unit.engine.rig import Rig


@each_row(
    ("schema", "parameters", "pointers"),
    [
        (False, {}, [""]),
        ({"required": ["a"]}, {}, [""]),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "y"}, ["/a"]),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "xy"}, []),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": 5}, []),
        ({"properties": {"a": {"format": "date"}}}, {"a": "soon"}, []),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": "aa"}, []),
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
    # A large one over a long text takes ten times as long as a small one
    schema = {"properties": {"a": {"pattern": "(.{1,900}|a)x"}}}
    assert check_schema(schema) == []
    assert [one.code for one in check_parameters(schema, {"a": "b" * 1_000})] == ["params"]
    [problem] = check_parameters(schema, {"a": "b" * 100_000})
    assert str(CHECKS_MAX) in problem.message


def test_messages_repeat_little_of_what_they_are_about() -> None:
    """The library repeats the whole value, in a message for each branch."""
    schema = {"properties": {"a": {"anyOf": [{"type": "string"}, {"maxItems": 9}]}}}
    given = {"a": [{"b": list(range(500))}, *range(500)]}
    [problem] = check_parameters(schema, given)
    assert (problem.pointer, problem.code) == ("/a", "params")
    assert problem.message.startswith("[{'b': [0, 1, 2,")
    assert "18, 19, …]" in problem.message
    assert " is not valid under any" in problem.message
    [problem] = check_parameters({"properties": {"a": {"maxLength": 1}}}, {"a": "x" * 1_000})
    assert len(problem.message) == LONGEST_MESSAGE
    # A long text is repeated as it is: so many branches need more than is allowed
    schema = {"properties": {"a": {"anyOf": [{"maxLength": 1}] * 600}}}
    [problem] = check_parameters(schema, {"a": "x" * 100_000})
    assert str(CHECKS_MAX) in problem.message
    # A list of problems ends somewhere
    assert (
        len(check_parameters({"additionalProperties": False}, dict.fromkeys("abcdefghijklmnopqrstuvwxyz")))
        == PROBLEMS_MAX
    )
    # A list of problems ends somewhere
    assert len(check_schema({"anyOf": [{"$ref": "#/absent"}] * 100})) == PROBLEMS_MAX


@each_row(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, True, "true is not of type 'integer'"),
        ({"type": "integer"}, None, "null is not of type 'integer'"),
        ({"enum": [True, None, "a", 1]}, False, "false is not one of [true, null, 'a', 1]"),
        ({"const": None}, 1, "null was expected"),
        ({"type": "integer"}, "a", "'a' is not of type 'integer'"),
    ],
)
def test_messages_have_the_words_of_json(schema: object, value: object, message: str) -> None:
    """Whoever sends JSON reads true, false and null."""
    assert [one.message for one in check_parameters(schema, value)] == [message]


def test_a_trigger_is_checked() -> None:
    """Parameters that the schema refuses start nothing and use up no number."""
    schema: dict[str, Any] = {
        "type": "object",
        "required": ["day"],
        "properties": {"day": {"type": "integer"}},
    }
    rig = Rig(paramsSchema=schema).create()
    refusal = rig.refusal(Triggered(params=b'{"day":"x"}'))
    assert (refusal.code, refusal.pointer) == (RefusalCode.INVALID, "/day")
    assert rig.summary.execute_number == 0
    rig.deliver(Triggered(params=b'{"day":1}'))
    assert rig.states() == [ExecutionState.PROCESSING]
    # A replay runs with the replayed execution's own parameters (SPEC section 10): they are recorded
    rig = Rig().create()
    rig.deliver(Triggered(params=b'{"day": "mon"}'))
    rig.answer()
    assert rig.execution(1).state is ExecutionState.SUCCEEDED
    assert (rig.execution(1).params, rig.execution(1).params_complete) == (b'{"day": "mon"}', True)
    rig.deliver(Triggered())
    assert rig.execution(2).params == b"{}"


@pytest.mark.timeout(20)
def test_a_schema_is_checked_once_however_often_it_is_referred_to() -> None:
    """References are followed in time that grows with the schema, not with its square."""
    nested: dict[str, Any] = {"type": "object"}
    for _ in range(50):
        nested = {"x": nested}
    chain = [{"$ref": "#/$defs/a" + "/x" * depth} for depth in range(51)]
    assert check_schema({"anyOf": [{"$ref": "#"}] * 900}) == []
    assert check_schema({"anyOf": chain, "$defs": {"a": nested}}) == []
    assert [one.pointer for one in check_schema({"$ref": "#/x", "x": {"y": {"type": 5}}})] == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("schema", "parameters"),
    [
        ({"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}}, {}),
        ({"additionalProperties": {"items": {"anyOf": [False] * 100 + [True]}}}, {"a": [1] * 100_000}),
        ({"additionalProperties": {"items": {"enum": list(range(1_000))}}}, {"a": [999] * 100_000}),
        ({"additionalProperties": {"items": {"pattern": "a$"}}}, {"a": ["a" * 10_000] * 1_000}),
    ],
    ids=["doubling", "alternatives", "enum", "pattern"],
)
def test_checking_parameters_ends(schema: dict[str, Any], parameters: object) -> None:
    """A small schema that needs very many checks refuses the parameters and blocks nothing."""
    if "$defs" in schema:
        schema = {"$ref": "#/$defs/d0", "$defs": schema["$defs"] | {"d40": True}}
    assert check_schema(schema) == []
    found = check_parameters(schema, parameters)
    assert [(one.pointer, one.code) for one in found] == [("", "params")]
    assert f"more than {CHECKS_MAX} checks" in found[0].message


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("items", "holds"),
    [
        ([{"a": index} for index in range(20_000)], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}], False),
        ([1, True, "1", None, [1], {"1": 1}], True),
        ([[1, 2], [2, 1]], True),
        (["a", "a"], False),
    ],
)
def test_equal_items_are_found_in_a_long_list(items: list[object], holds: bool) -> None:
    """`uniqueItems` compares by value, and each item once."""
    found = check_parameters({"properties": {"a": {"uniqueItems": True}}}, {"a": items})
    assert [one.pointer for one in found] == ([] if holds else ["/a"])
    assert check_parameters({"properties": {"a": {"uniqueItems": False}}}, {"a": items}) == []


@each_row(
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
        {"pattern": r"^\p{Han}{1,64}$"},
        {"pattern": r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}\.[A-Za-z]{2,}$"},
        {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}}},
    ],
)
def test_schemas_that_hold(schema: object) -> None:
    """JSON Schema 2020-12 is accepted, with patterns in the syntax of RE2."""
    assert check_schema(schema) == []


@each_row(
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
        ({"pattern": r"^\pL{1,200}$"}, "/pattern"),
    ],
)
def test_schemas_that_are_refused(schema: object, pointer: str) -> None:
    """What is no schema, or could lead outside or hang, is a problem with its pointer."""
    found = [(problem.pointer, problem.code == "too_many") for problem in check_schema(schema)]
    assert found == [("/paramsSchema" + pointer, False)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"anyOf": [{}] * VALUES_MAX}, ""),
        ({"enum": list(range(VALUES_MAX))}, ""),
        (
            {"anyOf": [{"pattern": f"a{index}"} for index in range(PATTERNS_MAX + 3)]},
            f"/anyOf/{PATTERNS_MAX}/pattern",
        ),
        ({"pattern": "a" * (PATTERN_CHARACTERS_MAX + 1)}, "/pattern"),
        ({"pattern": r"\pL" * (PATTERN_CLASSES_MAX + 1)}, "/pattern"),
        ({"pattern": r"\PL" * (PATTERN_CLASSES_MAX + 1)}, "/pattern"),
        ({"anyOf": [{"pattern": "a{1000}" * 9}] * 7}, "/anyOf/5/pattern"),
        (
            {"patternProperties": {f"a{index}": {} for index in range(PATTERNS_MAX + 1)}},
            f"/patternProperties/a{PATTERNS_MAX}",
        ),
    ],
)
def test_schemas_that_are_too_large(schema: object, pointer: str) -> None:
    """How much a schema may hold is limited; whatever is over the limit is said once."""
    assert [(one.pointer, one.code) for one in check_schema(schema)] == [
        ("/paramsSchema" + pointer, "too_many")
    ]
