"""The shapes of bodies and answers as tables, out of the schemas of the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler_service.api.pages.markup import Html, join, prose, table, tag

Schema = Mapping[str, Any]
REF = "#/components/schemas/"
LIMITS: Mapping[str, str] = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minLength": "length {} or more",
    "maxLength": "length {} or less",
    "minItems": "number of items {} or more",
    "maxItems": "number of items {} or less",
    "pattern": "matches {}",
    "format": "{}",
}


def name_type(schema: Schema) -> Html:
    """`string`, `array of Step` with a link, `integer or null`."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        return tag("a", name, href=f"#shape-{name}")
    if "anyOf" in schema:
        first, *others = (name_type(one) for one in schema["anyOf"])
        return join(first, *(join(" or ", one) for one in others))
    if "const" in schema:
        return tag("code", _write(schema["const"]))
    if "enum" in schema:
        first, *others = (tag("code", _write(value)) for value in schema["enum"])
        return join(first, *(join(" or ", one) for one in others))
    if schema.get("type") == "array":
        return join("array of ", name_type(schema.get("items", {})))
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return join("map of ", name_type(schema["additionalProperties"]))
    kind = schema.get("type", "any")
    return join(" or ".join(kind) if isinstance(kind, list) else kind)


def describe(schema: Schema) -> Html:
    """Its description, default and limits, in one cell."""
    parts = [prose(schema["description"])] if "description" in schema else []
    if schema.get("default") is not None:
        parts.append(join("default ", tag("code", _write(schema["default"]))))
    parts += [join(text) for text in _limits(schema)]
    return join(*(join("; " if index else "", part) for index, part in enumerate(parts)))


def show_members(schema: Schema) -> Html:
    """A row for each member of an object; of anything else its type."""
    members = schema.get("properties")
    if not members:
        return tag("p", name_type(schema), " ", describe(schema))
    required = set(schema.get("required", ()))
    rows = (
        (
            join(tag("code", name), " (required)" if name in required else ""),
            name_type(member),
            describe(member),
        )
        for name, member in members.items()
    )
    return table(("member", "type", "meaning and limits"), rows)


def show_shapes(schemas: Mapping[str, Schema]) -> Iterator[Html]:
    """A section for each shape, in the order of their names."""
    for name, schema in sorted(schemas.items()):
        said = tag("p", prose(schema["description"])) if "description" in schema else Html("")
        yield tag("section", tag("h3", tag("code", name)), said, show_members(schema), id=f"shape-{name}")


def _limits(schema: Schema) -> Iterator[str]:
    for one in (schema, *schema.get("anyOf", ())):
        for name, text in LIMITS.items():
            if name in one:
                yield text.format(one[name])


def _write(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
