"""The front page, and the reference: every route and shape is on the page, and its examples are commands."""

import hashlib
import re
import shlex
from base64 import b64encode
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from scheduler_service.api import openapi
from scheduler_service.api.application import OPERATIONS, create_api
from scheduler_service.api.pages import (
    Html,
    describe,
    headers,
    join,
    name_type,
    page,
    prefers_html,
    prose,
    show_members,
    table,
    tag,
    write_curl,
    write_reference,
)
from tests.rows import each_row
from tests.unit.api.world import World

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A caller on this machine."""
    async with World().client() as client:
        yield client


@each_row(
    ("accept", "is_html"),
    [
        (BROWSER["accept"], True),
        ("text/html", True),
        ("TEXT/HTML;q=0.5", True),
        ("application/xhtml+xml", True),
        ("text/html;q=0.5, application/json", False),
        ("application/json, text/html;q=0.9", False),
        ("application/json, text/html", True),
        ("text/html;q=0", False),
        ("text/html;q=0.000, */*", False),
        ("*/*", False),
        ("image/png", False),
        ("text/html;level=1", True),
        ("nonsense;;;q=x,,", False),
        ("", False),
        (None, False),
    ],
)
def test_a_page_is_for_those_who_name_html(accept: str | None, is_html: bool) -> None:
    """And prefer nothing else; whoever takes anything is a program."""
    assert prefers_html(accept) is is_html


async def test_all_else_get_json(client: httpx.AsyncClient) -> None:
    """The same in the envelope; caches keep the two apart."""
    for given in ({}, {"accept": "image/png"}, {"accept": "*/*"}):
        answer = await client.get("/", headers=given)
        assert answer.headers["vary"] == "accept"
        data = answer.json()["data"]
        assert (data["name"], data["status"], data["missing"]) == ("Punctual", "ready", [])
        assert {"/docs", "/openapi.json", "/jobs", "/health/ready"} <= data["links"].keys()


async def test_each_address_that_it_names_answers(client: httpx.AsyncClient) -> None:
    """A link that leads nowhere would be worse than none."""
    described = set((await client.get("/openapi.json")).json()["paths"])
    links = set((await client.get("/")).json()["data"]["links"])
    assert links - described == {"/docs", "/openapi.json"}
    assert (await client.get("/docs")).status_code == 200


async def test_a_service_that_is_not_ready_says_so() -> None:
    """With what is missing, and 200: it answers."""
    world = World()
    world.missing = ("store",)
    async with world.client() as client:
        data = (await client.get("/")).json()["data"]
    assert (data["status"], data["missing"]) == ("not_ready", ["store"])


async def test_the_pages_are_under_the_rules_of_all_routes(client: httpx.AsyncClient) -> None:
    """Other methods, unknown parameters, other machines and other names of this one."""
    for path in ("/", "/docs"):
        assert (await client.post(path)).status_code == 405
        assert (await client.get(path, params={"x": "1"})).status_code == 422
        assert (await client.get(path, headers={"host": "evil.example"})).status_code == 403
        head = await client.head(path, headers=BROWSER)
        assert (head.status_code, int(head.headers["content-length"]) > 0) == (200, True)
    async with World().client("192.0.2.1") as stranger:
        assert (await stranger.get("/")).status_code == 403


async def test_with_a_key_strangers_may_see_them() -> None:
    """A browser sends none, and no secret is there."""
    transport = httpx.ASGITransport(
        create_api(World(admin_key="a-key-of-callers").deps), client=("192.0.2.1", 1)
    )
    async with httpx.AsyncClient(transport=transport, base_url="https://jobs.example") as client:
        for path in ("/", "/docs"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert "a-key-of-callers" not in answer.text


async def test_a_page_loads_and_runs_nothing(client: httpx.AsyncClient) -> None:
    """The policy lets nothing in but the page's own style, by its digest, and no script is there."""
    answer = await client.get("/docs", headers=BROWSER)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    for word in ("<script", "<link", "<img", "javascript:", ' style="', " onclick", "//cdn"):
        assert word not in answer.text, word


VOID = {"meta", "br", "hr", "link"}


class Reader(HTMLParser):
    """Reads a page: its ids and links, and whether each element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [value for name, value in given.items() if name == "id" and value]
        self.links += [value for name, value in given.items() if name == "href" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """What all routes are, for programs."""
    return openapi.describe(OPERATIONS, version="1.2.3")


@pytest.fixture(scope="module")
def text(document: dict[str, Any]) -> str:
    """The page of all routes."""
    return write_reference(document).decode()


def test_the_page_is_whole(text: str) -> None:
    """Elements are closed, ids are unique, and each link within it leads somewhere."""
    reader = Reader(text)
    assert (reader.faults, reader.open) == ([], [])
    assert len(reader.ids) == len(set(reader.ids))
    inner = {link.removeprefix("#") for link in reader.links if link.startswith("#")}
    assert inner - set(reader.ids) == set()
    assert {link for link in reader.links if not link.startswith("#")} == {"/", "/openapi.json"}


def test_every_route_is_there(document: dict[str, Any], text: str) -> None:
    """With its parameters; and every shape with its members."""
    ids = Reader(text).ids
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["operationId"] in ids
            part = text.partition(f'id="{operation["operationId"]}"')[2].partition("</section>")[0]
            assert f"<code>{path}</code>" in part
            assert all(f"<code>{one['name']}</code>" in part for one in operation["parameters"])
    for name, schema in document["components"]["schemas"].items():
        part = text.partition(f'id="shape-{name}"')[2].partition("</section>")[0]
        assert all(f"<code>{member}</code>" in part for member in schema.get("properties", ())), name


def test_each_example_is_a_command(document: dict[str, Any]) -> None:
    """Of curl, with nothing left open in its path."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            words = shlex.split(write_curl(method, path, operation))
            assert words[0] == "curl"
            (url,) = (word for word in words if word.startswith("http://127.0.0.1:8000/"))
            assert not re.search(r"[{}\s]", url)
            assert ("-d" in words) is ("example" in str(operation.get("requestBody", {}).get("content", {})))


def test_answers_that_are_no_json_are_named_by_their_types() -> None:
    """As those of `/metrics`, of which there are two; and an answer without a body."""
    text = {"schema": {"type": "string"}}
    operation = {
        "operationId": "x", "summary": "x", "description": "x", "tags": ["x"], "security": [{}],
        "parameters": [],
        "responses": {
            "200": {"description": "OK", "content": {"text/plain": text, "text/event-stream": text}},
            "204": {"description": "No Content"},
        },
    }  # fmt: skip
    document = {
        "info": {"version": "1", "description": ""},
        "tags": [{"name": "x"}],
        "paths": {"/x": {"get": operation}},
        "components": {"schemas": {}},
    }
    page = write_reference(document).decode()
    assert "<td>text/plain or text/event-stream</td>" in page
    assert "<td>no body</td>" in page


async def test_it_is_made_once() -> None:
    """And is the same afterwards."""
    async with World().client() as client:
        first, second = await client.get("/docs"), await client.get("/docs")
    assert first.status_code == 200
    assert first.content == second.content


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
    # Required members are marked: in words
    shown = show_members({"required": ["a"], "properties": {"a": {"type": "string"}, "b": {}}})
    assert "<code>a</code> (required)" in shown
    assert "<code>b</code></td>" in shown


def test_texts_are_escaped_and_html_is_not() -> None:
    """In elements and in attributes."""
    assert tag("p", "<b>", Html("<i>")) == "<p>&lt;b&gt;<i></p>"
    assert tag("a", "x", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">x</a>'
    assert join("a & b", tag("br")) == "a &amp; b<br>"
    assert tag("nav", ["<", tag("b", "x")], aria_label="l", class_="c") == (
        '<nav aria-label="l" class="c">&lt;<b>x</b></nav>'
    )
    # Between backticks; also escaped
    assert prose("use `<a>` here") == "use <code>&lt;a&gt;</code> here"
    # A table without rows is nothing: neither are its headings
    assert table(("a",), ()) == ""


def test_the_style_is_the_one_that_the_policy_names() -> None:
    """By its digest: a browser would ignore any other one."""
    style = re.search(r"<style>(.*?)</style>", page("t").decode(), re.DOTALL)
    assert style is not None
    digest = b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in headers()["content-security-policy"]
