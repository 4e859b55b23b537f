"""A definition that fits a mould becomes what compiling it gives (SPEC sections 2, 10; DESIGN section 6)."""

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.models import ModelError, parse_definition
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.compile_cache import (
    APART,
    LARGEST,
    MOST_BRACKETS,
    MOULDS,
    CachedDefinition,
    CompileCache,
    posted_active,
    read_members,
)
from scheduler_service.engine.program import Surroundings
from tests.unit.engine.rig import definition
from tests.wire.definitions import DEFINITIONS, JSON

URL = "http://target.test/"


def write(value: Any) -> bytes:
    """As a caller posts it."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def compiled(text: bytes) -> CachedDefinition | None:
    """What the long way makes of it; None: refused."""
    try:
        parsed = parse_definition(msgspec.json.decode(text))
        found = compile_definition(parsed, Surroundings())
    except (msgspec.DecodeError, UnicodeDecodeError, ModelError, DefinitionError):
        return None
    return CachedDefinition(found.program, found.warnings, posted_active(parsed))


def cast(moulds: CompileCache, text: bytes) -> CachedDefinition | None:
    """What the short way makes of it."""
    return moulds.cast(read_members(text) or {})


def learn(moulds: CompileCache, text: bytes) -> None:
    """Compiles it and keeps the mould."""
    parsed = parse_definition(msgspec.json.decode(text))
    found = compile_definition(parsed, Surroundings())
    moulds.keep(read_members(text) or {}, found, active=posted_active(parsed))


def moulded(**members: Any) -> CompileCache:
    """Moulds that know one definition."""
    moulds = CompileCache(default_zone="UTC")
    learn(moulds, write(definition(**members)))
    return moulds


SIBLINGS: list[dict[str, Any]] = [
    {"jobId": "other"},
    {"jobName": "名", "objectId": "o", "jobDescription": "what it is for"},
    {"labels": {"team": "ops", "b": ""}},
    {"labels": None, "objectId": None, "timer": None},
    {"timer": {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin", "dueTime": "5s"}},
    {"timer": {"dueTime": "2030-01-01 00:00:00", "period": "0s", "misfire": {"policy": "skip"}}},
    {"request": [{"url": URL, "body": {"n": [1, 2.5, None, "a$b"], "ü": True}}]},
    {"request": [{"url": URL, "body": None}]},
    {"request": [{"url": URL, "body": "plain"}]},
]


@pytest.mark.parametrize("members", SIBLINGS)
def test_a_sibling_is_cast_and_equals_its_compilation(members: dict[str, Any]) -> None:
    """What jobs of one shape differ in is checked and compiled for itself; the result is the same."""
    moulds = moulded(request=[{"url": URL, "body": {"n": 1}}])
    base: dict[str, Any] = {"request": [{"url": URL, "body": {"n": 2}}]}
    text = write(definition(**{**base, **members}))
    found = cast(moulds, text)
    assert found is not None
    assert found == compiled(text)


WRONG: list[dict[str, Any]] = [
    {"jobId": "a b"},
    {"jobId": "clean"},
    {"jobId": 5},
    {"jobName": ""},
    {"jobName": " "},
    {"jobName": None},
    {"jobName": "a\x00"},
    {"objectId": 7},
    {"labels": {"a:b": "c"}},
    {"labels": {"a": 1}},
    {"labels": []},
    {"timer": {"period": "0 0 0 30 2 ?"}},
    {"timer": {"periode": "5m"}},
    {"timer": "5m"},
    {"timer": {"period": "5m", "dueTime": "0s", "timezone": "Mars/Base"}},
    {"request": [{"url": URL, "body": {"n": "${$.a"}}]},
    {"request": [{"url": URL, "body": {"n": "${schedulingNope}"}}]},
    {"request": [{"url": URL, "bodi": 1}]},
    {"request": []},
    {"qos": 2},
    {"unknown": 1},
]


@pytest.mark.parametrize("members", WRONG)
def test_what_is_wrong_never_fits(members: dict[str, Any]) -> None:
    """A mould accepts nothing that the compiler refuses: it says what is wrong (SPEC section 10)."""
    moulds = moulded(request=[{"url": URL, "body": {"n": 1}}])
    base: dict[str, Any] = {"request": [{"url": URL, "body": {"n": 2}}]}
    text = write(definition(**{**base, **members}))
    assert compiled(text) is None
    assert cast(moulds, text) is None


@pytest.mark.parametrize("body", ['{"a":"\\u0024{$.x}"}', '{"a":"$\\u007b$.x}"}', '"${$.x}"', '"$${x}"'])
def test_a_template_in_a_body_is_told_however_it_is_spelled(body: str) -> None:
    """A body counts as constant only where no string in it can hold a template (SPEC section 4)."""
    moulds = moulded(request=[{"url": URL, "body": {"n": 1}}])
    text = write(definition(request=["BODY"])).replace(
        b'"BODY"', b'{"url": "%s", "body": %s}' % (URL.encode(), body.encode())
    )
    assert compiled(text) is not None
    assert cast(moulds, text) is None


def test_a_body_with_templates_is_part_of_the_mould() -> None:
    """What later templates may refer to depends on it; with the very same one a sibling fits."""
    chain = [{"url": URL, "respEnvName": "first"}, {"url": URL, "body": {"n": "${first.n}"}}]
    moulds = moulded(request=chain)
    text = write(definition(jobId="other", request=chain))
    assert cast(moulds, text) == compiled(text) != None  # noqa: E711
    changed = copy.deepcopy(chain)
    changed[1]["body"] = {"n": "${first.m}"}
    assert cast(moulds, write(definition(request=changed))) is None


LIMITED = {"url": URL, "timeoutSeconds": 5}
CONFUSABLE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"timeoutSeconds": 5}, {"request": [LIMITED]}),
    ({"maxRetries": 5}, {"request": [{"url": URL, "maxRetries": 5}]}),
    ({"request": [LIMITED, {"url": URL}]}, {"request": [{"url": URL}, LIMITED]}),
    (
        {"request": [{"url": URL, "body": 1}, {"url": URL}]},
        {"request": [{"url": URL}, {"url": URL, "body": 1}]},
    ),
]


@pytest.mark.parametrize(("known", "other"), CONFUSABLE)
def test_a_member_belongs_where_it_stands(known: dict[str, Any], other: dict[str, Any]) -> None:
    """The same name and value mean another thing, or nothing, elsewhere in a definition (SPEC 2, 4)."""
    base: dict[str, Any] = {"request": [{"url": URL}]}
    for one, another in ((known, other), (other, known)):
        moulds, text = CompileCache(default_zone="UTC"), write(definition(**base | one))
        if compiled(text) is None:
            continue
        learn(moulds, text)
        assert cast(moulds, text) == compiled(text)
        assert cast(moulds, write(definition(**base | another))) is None


def test_equal_definitions_have_equal_fingerprints_either_way() -> None:
    """Spelled otherwise, compiled or cast: the same definition is the same (SPEC section 10)."""
    moulds = moulded(request=[{"url": URL, "body": {"a": 1, "b": 2}}])
    plain = write(definition(request=[{"url": URL, "body": {"b": 2, "a": 3}}]))
    found = cast(moulds, plain)
    spelled = compiled(write(definition(maxRetries=5, request=[{"body": {"a": 3, "b": 2}, "url": URL}])))
    assert found is not None
    assert spelled is not None
    assert found.program.fingerprint == spelled.program.fingerprint


def test_what_is_nested_deeply_goes_the_long_way() -> None:
    """Depth is judged where the whole is read (SPEC section 10)."""
    moulds = moulded(request=[{"url": URL, "body": 1}])
    deep: object = 1
    for _ in range(70):
        deep = [deep]
    assert cast(moulds, write(definition(request=[{"url": URL, "body": deep}]))) is None


def test_the_number_of_moulds_is_bounded() -> None:
    """Definitions of all shapes do not fill the memory."""
    moulds = CompileCache(default_zone="UTC")
    for number in range(MOULDS + 1):
        learn(moulds, write(definition(maxRetries=number)))
    assert cast(moulds, write(definition(maxRetries=0))) is None
    assert cast(moulds, write(definition(maxRetries=MOULDS))) is not None


@settings(deadline=None, max_examples=200)
@given(
    DEFINITIONS,
    st.dictionaries(st.sampled_from([*APART, "qos"]), JSON),
    st.lists(JSON, max_size=2),
)
def test_whatever_fits_equals_its_compilation(
    first: dict[str, Any], changes: dict[str, Any], bodies: list[Any]
) -> None:
    """By chance: a mould of one definition, another one with changed members; refused stays refused."""
    moulds = CompileCache(default_zone="UTC")
    text = write(first | {"jobId": "first"})
    if compiled(text) is None:
        return
    learn(moulds, text)
    assert cast(moulds, text) in (None, compiled(text))
    other = copy.deepcopy(first) | {"jobId": "second"} | changes
    for step, body in zip(other["request"], bodies, strict=False):
        step["body"] = body
    changed = write(other)
    found = cast(moulds, changed)
    assert found is None or found == compiled(changed)


def test_what_is_large_or_nested_is_left_to_the_compiler() -> None:
    """Moulds stay small, and what may nest too deep is looked at in full; it is compiled all the same."""
    long = "x" * (LARGEST + 1)
    for members in (
        {"request": [{"url": URL, "headers": {"A": long}}]},
        {"request": [{"url": URL, "body": long}]},
        {"paramsSchema": {"default": [[]] * MOST_BRACKETS}},
    ):
        text = write(definition(**members))
        moulds = moulded(**members)
        assert cast(moulds, text) is None
        assert compiled(text) is not None


def test_a_long_timer_is_read_anew_each_time() -> None:
    """What is long is not kept; the definition fits all the same."""
    moulds = moulded()
    text = write(definition(timer={"dueTime": "0s", "period": "5m"}))
    text = text.replace(b'"5m"', b'"5m"' + b" " * (LARGEST + 1))
    for _ in range(2):
        found = cast(moulds, text)
        assert found is not None
        assert found == compiled(text)
