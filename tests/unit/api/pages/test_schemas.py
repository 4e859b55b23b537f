"""Shapes as tables."""

from scheduler_service.api.pages.schemas import describe, name_type, show_members
from tests.rows import each_row


@each_row(
    ("schema", "shown"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"$ref": "#/components/schemas/Job"}, '<a href="#shape-Job">Job</a>'),
        (
            {"type": "array", "items": {"$ref": "#/components/schemas/Job"}},
            'array of <a href="#shape-Job">Job</a>',
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map of string"),
        ({"enum": ["a", "<"]}, "<code>&quot;a&quot;</code> or <code>&quot;&lt;&quot;</code>"),
        ({"const": 200}, "<code>200</code>"),
        ({}, "any"),
    ],
)
def test_types_are_named(schema: dict[str, object], shown: str) -> None:
    """With links to other shapes."""
    assert name_type(schema) == shown


def test_limits_and_defaults_are_said() -> None:
    """Also those of a member that may be null."""
    schema = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": 5}
    assert describe(schema) == "default <code>5</code>; at least 1"


def test_required_members_are_marked() -> None:
    """In words."""
    shown = show_members({"required": ["a"], "properties": {"a": {"type": "string"}, "b": {}}})
    assert "<code>a</code> (required)" in shown
    assert "<code>b</code></td>" in shown
