"""Pages for a browser: the front page, and the reference of the API; made here, without any other file."""

import hashlib
import json
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from scheduler_service.api import CONSOLE
from scheduler_service.api.bodies import header, read_preferences
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.hosts.work_thread import work_apart

NAME = "Punctual"
DESCRIPTIONS: Mapping[str, str] = {
    "/docs": "every route with its parameters, shapes and examples",
    "/openapi.json": "the same for programs, in OpenAPI 3.1",
    CONSOLE: "the console, for a browser",
    "/jobs": "the jobs",
    "/executions": "what has run and what runs, the newest first",
    "/upcoming": "what is planned",
    "/stats": "how much is due, running and late",
    "/statistics": "what became of executions, day by day",
    "/nodes": "the scheduler processes",
    "/alerts": "whom the settings tell of what, and what is open",
    "/events": "what happens, as it happens",
    "/metrics": "figures for Prometheus",
    "/health/ready": "whether it accepts work",
}


class FrontPage:
    """Answers `GET /`; it links to those of `DESCRIPTIONS` that are in `paths`.

    Where the console is one of them, browsers are sent on to it.
    """

    def __init__(self, *, paths: Sequence[str]) -> None:
        self._links = {path: text for path, text in DESCRIPTIONS.items() if path in paths}

    async def show(self, request: ApiRequest) -> Response:
        """The way to the console, or JSON; also where the service is not ready, which it says."""
        missing = list(await request.deps.shown.ready())
        version = request.deps.shown.version
        state = "ready" if not missing else "not_ready"
        if CONSOLE not in self._links or not prefers_html(header(request.scope, b"accept")):
            data = {"name": NAME, "version": version, "status": state, "missing": missing}
            return succeed({**data, "links": self._links}, {"vary": "accept"})
        address = f"{CONSOLE.removeprefix('/')}/"
        return RedirectResponse(address, HTTPStatus.SEE_OTHER, {"vary": "accept"})


def prefers_html(accept: str | None) -> bool:
    """Whether `Accept` names HTML, and nothing that is JSON before it (RFC 9110, section 12.5.1).

    `*/*` alone is no browser.
    """
    named = read_preferences(accept)
    html = max(named.get("text/html", 0), named.get("application/xhtml+xml", 0))
    return 0 < html >= named.get("application/json", 0)


VOID = frozenset({"meta", "link", "br", "hr"})

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --paper: #ffffff; --panel: #f4f6f8;
  --line: #d0d7de; --link: #0b57a4; --get: #0b57a4; --post: #116329; --put: #7a4a00; --delete: #a40e26; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9ea7b3; --paper: #0d1117;
  --panel: #161b22; --line: #30363d; --link: #79b8ff; --get: #79b8ff; --post: #7ee787; --put: #f0b866;
  --delete: #ff9a93; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
code, pre { font: 0.875em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
code { overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem;
  overflow-x: auto; }
h1 { font-size: 1.75rem; margin: 0 0 0.25rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.75rem; padding-bottom: 0.3rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 0.25rem; }
h4 { font-size: 0.95rem; margin: 1rem 0 0.25rem; }
p { margin: 0.4rem 0; }
.dim { color: var(--dim); }
table { border-collapse: collapse; width: 100%; margin: 0.3rem 0 0.8rem; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.75rem 0.35rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: 0.5rem; }
.wide { display: grid; grid-template-columns: minmax(0, 18rem) minmax(0, 1fr); }
.wide > nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.25rem;
  background: var(--panel); border-right: 1px solid var(--line); font-size: 0.85rem; }
.wide > nav h2 { font-size: 0.95rem; margin: 1.1rem 0 0.2rem; border: 0; padding: 0; }
.wide > nav ul { list-style: none; margin: 0; padding: 0; }
.wide > nav li { margin: 0.15rem 0; overflow-wrap: anywhere; }
.wide > main { padding: 2rem 2.5rem; max-width: 60rem; }
.method { font: 600 0.8em ui-monospace, Menlo, Consolas, monospace; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); }
.delete { color: var(--delete); }
section { scroll-margin-top: 1rem; }
@media (max-width: 52rem) { .wide { display: block; }
  .wide > nav { position: static; height: auto; max-height: 40vh; border-right: 0;
    border-bottom: 1px solid var(--line); } .wide > main { padding: 1.25rem; } }
"""


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def tag(name: str, *inside: str | Iterable[str], **attributes: str) -> Html:
    """An element. `class_` is the attribute `class`, `aria_label` is `aria-label`.

    An iterable inside stands for its items.
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    begin = "".join(f' {key}="{escape(value)}"' for key, value in named.items())
    if name in VOID:
        return Html(f"<{name}{begin}>")
    return Html(f"<{name}{begin}>{''.join(map(_write, inside))}</{name}>")


def join(*parts: str) -> Html:
    """Parts behind each other, texts among them escaped."""
    return Html("".join(map(_write, parts)))


def prose(text: str) -> Html:
    """A text in which `words` stand between backticks: these are code."""
    parts = text.split("`")
    return join(*(tag("code", part) if index % 2 else part for index, part in enumerate(parts)))


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Html:
    """A table; without rows nothing."""
    body = [tag("tr", (tag("td", cell) for cell in row)) for row in rows]
    if not body:
        return Html("")
    head = tag("tr", (tag("th", heading, scope="col") for heading in headings))
    return tag("table", tag("thead", head), tag("tbody", body))


def page(title: str, *inside: str) -> bytes:
    """A whole page, in UTF-8."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    body = tag("body", tag("a", "Skip to the content", href="#content", class_="skip"), *inside)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n".encode()


def headers() -> Mapping[str, str]:
    """Those of every page: it loads nothing, runs nothing, and stands in no frame of another page."""
    digest = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return {"content-security-policy": policy, "referrer-policy": "no-referrer"}


def _write(part: str | Iterable[str]) -> str:
    if isinstance(part, Html):
        return part
    if isinstance(part, str):
        return escape(part)
    return "".join(map(_write, part))


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
        document["paths"].items(), key=lambda item: (item[0].split("/")[1] != name, item[0])
    ):
        for method, operation in sorted(methods.items(), key=lambda item: METHODS.index(item[0])):
            if name in operation["tags"]:
                yield method, path, operation


def _contents(document: Schema) -> Html:
    lists = (
        join(
            tag("h2", tag("a", name, href=f"#tag-{name}")),
            tag(
                "ul",
                (
                    tag("li", tag("a", found["summary"], href=f"#{found['operationId']}"))
                    for _, _, found in _of(document, name)
                ),
            ),
        )
        for name in _tags(document)
    )
    first = tag("p", tag("a", NAME, href="/"))
    last = tag("h2", tag("a", "shapes", href="#shapes"))
    return tag("nav", first, lists, last, aria_label="Contents")


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
        return tag("code", _write_value(schema["const"]))
    if "enum" in schema:
        first, *others = (tag("code", _write_value(value)) for value in schema["enum"])
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
        parts.append(join("default ", tag("code", _write_value(schema["default"]))))
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


def _write_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
