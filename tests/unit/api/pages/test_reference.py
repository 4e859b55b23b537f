"""The reference: every route and shape is on the page, and its examples are commands."""

import re
import shlex
from html.parser import HTMLParser
from typing import Any

import pytest

from scheduler_service.api import openapi
from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.pages.reference import (
    describe,
    name_type,
    show_members,
    write_curl,
    write_reference,
)
from tests.rows import each_row
from tests.unit.api.world import World

DOCUMENT = openapi.describe(OPERATIONS, version="1.2.3")
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
def text() -> str:
    """The page of all routes."""
    return write_reference(DOCUMENT).decode()


def test_the_page_is_whole(text: str) -> None:
    """Elements are closed, ids are unique, and each link within it leads somewhere."""
    reader = Reader(text)
    assert (reader.faults, reader.open) == ([], [])
    assert len(reader.ids) == len(set(reader.ids))
    inner = {link.removeprefix("#") for link in reader.links if link.startswith("#")}
    assert inner - set(reader.ids) == set()
    assert {link for link in reader.links if not link.startswith("#")} == {"/", "/openapi.json"}


def test_every_route_is_there(text: str) -> None:
    """With its parameters; and every shape with its members."""
    ids = Reader(text).ids
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            assert operation["operationId"] in ids
            part = text.partition(f'id="{operation["operationId"]}"')[2].partition("</section>")[0]
            assert f"<code>{path}</code>" in part
            assert all(f"<code>{one['name']}</code>" in part for one in operation["parameters"])
    for name, schema in DOCUMENT["components"]["schemas"].items():
        part = text.partition(f'id="shape-{name}"')[2].partition("</section>")[0]
        assert all(f"<code>{member}</code>" in part for member in schema.get("properties", ())), name


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    ]


@each_row(("method", "path", "operation"), operations())
def test_each_example_is_a_command(method: str, path: str, operation: dict[str, Any]) -> None:
    """Of curl, with nothing left open in its path."""
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
