"""Texts that other template languages would run, and naughty strings, as templates and values
(SPEC section 4)."""

import base64
import json
from typing import Any
from urllib.parse import unquote

from scheduler_service.domain.errors import DefinitionError, ExpressionError
from scheduler_service.domain.texts import scrub
from scheduler_service.language.expression import Names
from scheduler_service.language.json_values import find_control, parse_json
from scheduler_service.language.rendering import (
    URL_CHARACTERS_MAX,
    Rendered,
    Scope,
    Unrenderable,
    render_json,
    render_text,
    render_url,
)
from scheduler_service.language.template import compile_json, compile_text, compile_url

NAMES = Names()
BODY = compile_json({"text": "<${v}>", "value": "${$.v}|json"}, names=NAMES)
HEADER = compile_text("x ${v}", names=NAMES)
URL = compile_url("https://host/a/x${v}?q=${v}#f", names=NAMES)


def scope(value: object) -> Scope:
    aliases = {"jobId": "job", "executeNumber": 1}
    return Scope(system={"schedulingJobId": "job"}, environment={}, root={"v": value}, aliases=aliases)


def outcome(text: str) -> object:
    """What a text becomes as a template: its value, or what refused it."""
    try:
        rendered = render_json(compile_json(text, names=NAMES), scope("value"))
    except DefinitionError as error:
        return error
    return rendered.value if isinstance(rendered, Rendered) else rendered


def check_as_value(text: str) -> None:
    """As a value any text comes out unchanged, wherever it may come out."""
    assert render_json(BODY, scope(text)) == Rendered({"text": f"<{text}>", "value": text})
    header = render_text(HEADER, scope(text))
    assert (
        isinstance(header, Unrenderable) if find_control(text) is not None else header == f"x {scrub(text)}"
    )
    url = render_url(URL, scope(text))
    if len(text) > URL_CHARACTERS_MAX:
        assert isinstance(url, Unrenderable)
        return
    assert isinstance(url, str)
    head, _, query = url.partition("?q=")
    assert head.startswith("https://host/a/x")
    assert head.count("/") == 4
    assert unquote(query.removesuffix("#f")) == scrub(text)


def test_injected_texts_are_data_as_values(conformance: Any) -> None:
    """SPEC section 4: what a response contains is data."""
    for row in conformance("template_injection.jsonl"):
        check_as_value(row["input"])


def test_naughty_strings_are_data_as_values(conformance: Any) -> None:
    """The same of strings that break programs."""
    for row in conformance("naughty_strings.jsonl"):
        check_as_value(row["string"])


def test_injected_texts_run_nothing_as_templates(conformance: Any) -> None:
    """SPEC section 4: other languages' marks are text; a `${…}` that is no expression is refused by name."""
    for row in conformance("template_injection.jsonl"):
        text, expect = row["input"], row["expect"]
        got = outcome(text)
        if expect == "inert":
            assert got == text or ("${" in text and isinstance(got, DefinitionError)), row["id"]
        elif expect == "clear_error":
            assert isinstance(got, (DefinitionError, Unrenderable)), row["id"]
        else:
            assert isinstance(got, (DefinitionError, Unrenderable, str)), row["id"]


def test_a_host_from_a_response_is_refused(conformance: Any) -> None:
    """SPEC section 4: rows on hosts and headers."""
    for row in conformance("template_injection.jsonl"):
        if row["expect"] in ("policy_after_substitution", "no_header_injection"):
            compiler = compile_text if row["expect"] == "no_header_injection" else compile_url
            try:
                compiler(row["input"], names=NAMES)
            except ExpressionError:
                continue
            raise AssertionError(row["id"])


def test_bodies_are_json_or_text(conformance: Any) -> None:
    """RFC 8259: what must parse does, what must not is text, and nothing raises."""
    for row in conformance("json_bodies.jsonl"):
        body = base64.b64decode(row["body_base64"])
        value = parse_json(body)
        if row["kind"] == "y":
            assert value == json.loads(body), row["name"]
        elif row["kind"] == "n" and body[:3] != b"\xef\xbb\xbf":
            assert value == body.decode("utf-8", "backslashreplace"), row["name"]
