"""The reference `/docs`: every route of the OpenAPI document on one page, with shapes and examples."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from scheduler_service.api.pages.front import NAME
from scheduler_service.api.pages.markup import Html, headers, join, page, prose, table, tag
from scheduler_service.api.request import ApiRequest
from scheduler_service.hosts.work_thread import work_apart

Schema = Mapping[str, Any]
BASE = "http://127.0.0.1:8000"
FAILURES = "400"
METHODS = ("post", "get", "put", "patch", "delete")


class Reference:
    """Answers `GET /docs` out of `document`, which is read at the first request."""

    def __init__(self, *, document: Callable[[], Schema]) -> None:
        self._document = document
        self._written: list[bytes] = []

    async def show(self, request: ApiRequest) -> Response:
        """The page; made beside the loop at the first request, and then kept."""
        if not self._written:
            self._written[:] = [await work_apart(lambda: write_reference(self._document()))]
        return Response(self._written[0], 200, headers(), "text/html; charset=utf-8")


def write_reference(document: Schema) -> bytes:
    """The page of an OpenAPI document."""
    info = document["info"]
    sections = [
        tag("section", tag("h2", one), (_operation(*found) for found in _of(document, one)), id=f"tag-{one}")
        for one in _tags(document)
    ]
    main = tag(
        "main",
        tag("h1", f"{NAME}: the REST API"),
        tag("p", f"Version {info['version']}. ", prose(info["description"])),
        tag("p", join("For programs: ", tag("a", "/openapi.json", href="/openapi.json"), " (OpenAPI 3.1).")),
        sections,
        tag("section", tag("h2", "Shapes"), show_shapes(document["components"]["schemas"]), id="shapes"),
        id="content",
    )
    return page(f"{NAME}: the REST API", tag("div", _contents(document), main, class_="wide"))


def _tags(document: Schema) -> list[str]:
    return [one["name"] for one in document["tags"]]


def _of(document: Schema, name: str) -> Iterator[tuple[str, str, Schema]]:
    """(method, path, operation) of each operation of a tag: by path, those of its own resource first."""
    for path, methods in sorted(
        document["paths"].items(), key=lambda item: (_is_foreign(item[0], name), item[0])
    ):
        for method, operation in sorted(methods.items(), key=lambda item: METHODS.index(item[0])):
            if name in operation["tags"]:
                yield method, path, operation


def _is_foreign(path: str, name: str) -> bool:
    return path.split("/")[1] != name


def _contents(document: Schema) -> Html:
    lists = (
        join(
            tag("h2", tag("a", name, href=f"#tag-{name}")),
            tag("ul", (tag("li", _link(*found)) for found in _of(document, name))),
        )
        for name in _tags(document)
    )
    first = tag("p", tag("a", NAME, href="/"))
    last = tag("h2", tag("a", "shapes", href="#shapes"))
    return tag("nav", first, lists, last, aria_label="Contents")


def _link(method: str, path: str, operation: Schema) -> Html:
    return tag("a", operation["summary"], href=f"#{operation['operationId']}")


def _operation(method: str, path: str, operation: Schema) -> Html:
    name = tag("span", method.upper(), class_=f"method {method}")
    key = "needs no key" if operation["security"] == [{}] else "needs the key where one is configured"
    return tag(
        "section",
        tag("h3", operation["summary"]),
        tag("p", name, " ", tag("code", path)),
        tag("p", prose(operation["description"]), " ", tag("span", f"({key})", class_="dim")),
        _parameters(operation),
        _body(operation),
        _answers(operation),
        tag("h4", "Example"),
        tag("pre", tag("code", write_curl(method, path, operation))),
        id=operation["operationId"],
    )


def _parameters(operation: Schema) -> Html:
    rows = [
        (
            join(tag("code", one["name"]), " (required)" if one["required"] else ""),
            one["in"],
            name_type(one["schema"]),
            join(prose(one.get("description", "")), " ", describe(one["schema"])),
        )
        for one in operation["parameters"]
    ]
    heading = tag("h4", "Parameters") if rows else Html("")
    return join(heading, table(("name", "in", "type", "meaning and limits"), rows))


def _body(operation: Schema) -> Html:
    if "requestBody" not in operation:
        return Html("")
    body = operation["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    is_named = "$ref" in schema or schema.get("type") == "array"
    shown = tag("p", name_type(schema), " ", describe(schema)) if is_named else show_members(schema)
    need = "required" if body.get("required") else "may be left out"
    return join(tag("h4", "Body"), tag("p", f"JSON; {need}.", class_="dim"), shown)


def _answers(operation: Schema) -> Html:
    found = sorted(operation["responses"].items())
    rows = [
        (join(tag("code", status), f" {answer['description']}"), _shape_of(answer))
        for status, answer in found
        if status < FAILURES
    ]
    refusals = [f"{status} {answer['description']}" for status, answer in found if status >= FAILURES]
    if refusals:
        rows.append((join(", ".join(refusals)), _shape_of(found[-1][1])))
    return join(tag("h4", "Answers"), table(("status", "shape"), rows))


def _shape_of(answer: Schema) -> Html:
    content = answer.get("content", {})
    if not any(media.endswith("json") for media in content):
        return join(" or ".join(content) or "no body")
    schema = next(iter(content.values()))["schema"]
    if "properties" not in schema:
        return name_type(schema)
    return join("envelope, ", tag("code", "data"), ": ", name_type(schema["properties"]["data"]))


def write_curl(method: str, path: str, operation: Schema) -> str:
    """The call as a command, with the examples of its path, required parameters and body."""
    query = []
    for one in operation["parameters"]:
        value = _example_of(one)
        if one["in"] == "path":
            path = path.replace("{" + one["name"] + "}", quote(value, safe=""))
        elif one["in"] == "query" and one["required"]:
            query.append(f"{one['name']}={quote(value, safe='')}")
    url = BASE + path + ("?" + "&".join(query) if query else "")
    words = ["curl", *([] if method == "get" else ["-X", method.upper()]), url]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if "example" in content:
        words += ["-H", "Content-Type: application/json", "-d"]
        words.append(json.dumps(content["example"], ensure_ascii=False, indent=2))
    return shlex.join(words)


def _example_of(parameter: Schema) -> str:
    schema = parameter["schema"]
    found = parameter.get("example", next(iter(schema.get("examples", ())), None))
    if found is None:
        found = next(iter(schema.get("enum", ())), 1 if schema.get("type") == "integer" else None)
    return parameter["name"].upper() if found is None else str(found)


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
