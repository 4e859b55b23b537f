"""paramsSchema itself: which schemas are taken (SPEC section 2)."""

import pytest

from scheduler_service.engine.parameters import (
    PATTERN_CHARACTERS_MAX,
    PATTERN_CLASSES_MAX,
    PATTERNS_MAX,
    VALUES_MAX,
    check_schema,
)
from tests.rows import each_row


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
