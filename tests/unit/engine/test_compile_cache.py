"""A definition of a cached shape gets the program that compiling it gives (SPEC sections 2, 10)."""

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from client_sdk.models import ModelError, parse_definition
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.job_key import TRIALS
from scheduler_service.engine import compile_cache
from scheduler_service.engine.compile import below_timer, compile_definition
from scheduler_service.engine.compile_cache import (
    BRACKETS_MAX,
    BYTES_MAX,
    KEPT_BYTES,
    OUTSIDE_SHAPE,
    SHAPES_MAX,
    BatchLookup,
    CachedDefinition,
    CompileCache,
    OwnMembers,
    posted_active,
    read_members,
)
from scheduler_service.engine.program import Surroundings
from scheduler_service.language.json_scan import count_colons
from scheduler_service.timing.schedule import warnings_at
from scheduler_service.timing.timer import Timer
from tests.rows import each_row
from tests.unit.engine.rig import START, definition
from tests.wire.definitions import DEFINITIONS, JSON

URL = "http://target.test/"


def write(value: Any) -> bytes:
    """As a caller posts it."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def compiled(text: bytes) -> CachedDefinition | None:
    """What the compiler gives; None: refused."""
    try:
        parsed = parse_definition(msgspec.json.decode(text))
        found = compile_definition(parsed, Surroundings())
    except (msgspec.DecodeError, UnicodeDecodeError, ModelError, DefinitionError):
        return None
    return CachedDefinition(found.program, found.warnings, posted_active(parsed))


def find(cache: CompileCache, text: bytes) -> CachedDefinition | None:
    """What the cache gives."""
    return cache.find(read_members(text) or {}, colons=count_colons(text))


def add(cache: CompileCache, text: bytes) -> None:
    """Compiles the definition and adds its shape."""
    parsed = parse_definition(msgspec.json.decode(text))
    found = compile_definition(parsed, Surroundings())
    cache.add(read_members(text) or {}, found, active=posted_active(parsed), colons=count_colons(text))


def cache_of(**members: Any) -> CompileCache:
    """A cache with the shape of one definition."""
    cache = CompileCache(default_zone="UTC")
    add(cache, write(definition(**members)))
    return cache


SIBLINGS: list[dict[str, Any]] = [
    {"jobId": "other"},
    {"jobName": "名", "objectId": "o", "jobDescription": "what it\n\tis for"},
    {"labels": {"team": "ops", "b": ""}},
    {"labels": None, "objectId": None, "timer": None},
    {"timer": {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin", "dueTime": "5s"}},
    {"timer": {"dueTime": "2030-01-01 00:00:00", "period": "0s", "misfire": {"policy": "skip"}}},
    {"request": [{"url": URL, "body": {"n": [1, 2.5, None, "a$b"], "ü": True}}]},
    {"request": [{"url": URL, "body": None}]},
    {"request": [{"url": URL, "body": "plain"}]},
]


@each_row("members", SIBLINGS)
def test_a_definition_of_one_shape_equals_its_compilation(members: dict[str, Any]) -> None:
    """The members outside the shape are checked and compiled on their own; the result is the same."""
    cache = cache_of(request=[{"url": URL, "body": {"n": 1}}])
    add(cache, write(definition(request=[{"url": URL, "body": {"n": 1}}], timer={"period": "2h"})))
    base: dict[str, Any] = {"request": [{"url": URL, "body": {"n": 2}}]}
    text = write(definition(**{**base, **members}))
    found = find(cache, text)
    assert found is not None
    assert found == compiled(text)


PARAM = "${trigger.x}"
WITH_PARAM: list[dict[str, Any]] = [
    {"request": [{"url": URL, "body": {"a": PARAM}}]},
    {"request": [{"url": URL, "headers": {"X-A": PARAM}}]},
    {"request": [{"url": f"{URL}?a={PARAM}"}, {"url": URL, "body": 1}]},
    {"notification": [{"url": URL, "body": PARAM}]},
    {"async": True, "checkUrl": f"{URL}?a={PARAM}"},
    {"cancelUrl": {"url": URL, "body": PARAM}},
]
KINDS = [
    {"period": "external"},
    {"period": "1h"},
    None,
    {"period": "0 0 2 * * ?"},
    {"period": "external", "ttl": "1h"},
]


@each_row("members", WITH_PARAM)
def test_warnings_do_not_depend_on_what_was_posted_before(members: dict[str, Any]) -> None:
    """`no_params` depends on the timer, which is outside of the shape (SPEC section 4)."""
    texts = [write(definition(**members, timer=timer)) for timer in KINDS]
    for first in texts:
        cache = CompileCache(default_zone="UTC")
        add(cache, first)
        found = [(one, compiled(text)) for text in texts if (one := find(cache, text)) is not None]
        assert found
        assert all(warm == cold for warm, cold in found)
    codes = [{one.code for one in found.warnings} for found in map(compiled, texts) if found is not None]
    assert ["no_params" in one for one in codes] == [False, True, True, True, False]


WRONG: list[dict[str, Any]] = [
    {"jobId": "a b"},
    {"jobId": "clean"},
    {"jobId": 5},
    {"jobName": ""},
    {"jobName": " "},
    {"jobName": None},
    {"jobName": "a\x00"},
    {"jobName": "a\nb"},
    {"jobName": "x" * 4_001},
    {"labels": {f"l{number}": "" for number in range(1_001)}},
    {"jobDescription": "a\u202eb"},
    {"labels": {"a": "b\x85"}},
    {"labels": {"a\u2066": "b"}},
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


@each_row("members", WRONG)
def test_a_wrong_definition_is_never_found(members: dict[str, Any]) -> None:
    """The cache accepts nothing that the compiler refuses, which reports what is wrong (SPEC section 10)."""
    cache = cache_of(request=[{"url": URL, "body": {"n": 1}}])
    base: dict[str, Any] = {"request": [{"url": URL, "body": {"n": 2}}]}
    text = write(definition(**{**base, **members}))
    assert compiled(text) is None
    assert find(cache, text) is None


@each_row("body", ['{"a":"\\u0024{$.x}"}', '{"a":"$\\u007b$.x}"}', '"${$.x}"', '"$${x}"'])
def test_a_template_in_a_body_is_seen_in_every_spelling(body: str) -> None:
    """A body counts as constant only if no string in it can contain a template (SPEC section 4)."""
    cache = cache_of(request=[{"url": URL, "body": {"n": 1}}])
    text = write(definition(request=["BODY"])).replace(
        b'"BODY"', b'{"url": "%s", "body": %s}' % (URL.encode(), body.encode())
    )
    assert compiled(text) is not None
    assert find(cache, text) is None


def test_a_body_with_templates_is_part_of_the_shape() -> None:
    """It decides which responses later templates read; with an equal body the definition is found."""
    chain = [{"url": URL, "respEnvName": "first"}, {"url": URL, "body": {"n": "${first.n}"}}]
    cache = cache_of(request=chain)
    text = write(definition(jobId="other", request=chain))
    assert find(cache, text) == compiled(text) != None  # noqa: E711
    changed = copy.deepcopy(chain)
    changed[1]["body"] = {"n": "${first.m}"}
    assert find(cache, write(definition(request=changed))) is None


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


@each_row(("known", "other"), CONFUSABLE)
def test_a_member_counts_at_its_place_only(known: dict[str, Any], other: dict[str, Any]) -> None:
    """The same name and value mean something else elsewhere in a definition (SPEC sections 2, 4)."""
    base: dict[str, Any] = {"request": [{"url": URL}]}
    for one, another in ((known, other), (other, known)):
        cache, text = CompileCache(default_zone="UTC"), write(definition(**base | one))
        if compiled(text) is None:
            continue
        add(cache, text)
        assert find(cache, text) == compiled(text)
        assert find(cache, write(definition(**base | another))) is None


def test_trials_are_never_found() -> None:
    """Else a worker process would take a posted one for known and good."""
    assert find(cache_of(parentJob="a"), write(definition(parentJob="a"))) is not None
    assert find(cache_of(parentJob=TRIALS), write(definition(parentJob=TRIALS))) is None


def test_the_number_of_shapes_is_bounded() -> None:
    """Definitions of many shapes do not fill the memory."""
    cache = CompileCache(default_zone="UTC")
    for number in range(SHAPES_MAX + 1):
        add(cache, write(definition(maxRetries=number)))
    assert find(cache, write(definition(maxRetries=0))) is None
    assert find(cache, write(definition(maxRetries=SHAPES_MAX))) is not None
    # What is kept is bounded by its bytes: of long shapes, and of long timers, fewer are kept
    cache = CompileCache(default_zone="UTC")
    long = {f"A{number}": "x" * 1_000 for number in range(12)}
    texts = [
        write(definition(maxRetries=number, request=[{"url": URL, "headers": long}]))
        for number in range(KEPT_BYTES // 12_000 + 1)
    ]
    for text in texts:
        add(cache, text)
    assert find(cache, texts[0]) is None
    assert find(cache, texts[-1]) is not None
    timers = [b'{"period":"external"%s}' % (b" " * (BYTES_MAX - 100 + n)) for n in range(70)]
    kept = [cache.timer(raw) for raw in timers]
    assert cache.timer(timers[-1]) is kept[-1]
    assert cache.timer(timers[0]) is not kept[0]


@given(
    DEFINITIONS,
    st.dictionaries(st.sampled_from([*OUTSIDE_SHAPE, "qos"]), JSON),
    st.lists(JSON, max_size=2),
)
def test_whatever_is_found_equals_its_compilation(
    first: dict[str, Any], changes: dict[str, Any], bodies: list[Any]
) -> None:
    """Random definitions with changed members; what the compiler refuses is not found."""
    cache = CompileCache(default_zone="UTC")
    text = write(first | {"jobId": "first"})
    if compiled(text) is None:
        return
    add(cache, text)
    assert find(cache, text) in (None, compiled(text))
    other = copy.deepcopy(first) | {"jobId": "second"} | changes
    for step, body in zip(other["request"], bodies, strict=False):
        step["body"] = body
    changed = write(other)
    found = find(cache, changed)
    assert found is None or found == compiled(changed)


def test_large_or_nested_definitions_are_left_to_the_compiler() -> None:
    """The cache stays small, and what may nest too deep is read in full; both are compiled all the same."""
    long = "x" * (BYTES_MAX + 1)
    for members in (
        {"request": [{"url": URL, "headers": {"A": long}}]},
        {"request": [{"url": URL, "body": long}]},
        {"paramsSchema": {"default": [[]] * BRACKETS_MAX}},
    ):
        text = write(definition(**members))
        cache = cache_of(**members)
        assert find(cache, text) is None
        assert compiled(text) is not None


PAST = {"dueTime": "2020-01-01 00:00:00", "period": "0s"}
TIMERS: list[dict[str, Any]] = [PAST, {"period": "external"}, {"dueTime": "1h", "period": "0s", "ttl": "1m"}]


def filled_cache() -> CompileCache:
    """A cache with the shape of one definition, for both kinds of timers."""
    cache = CompileCache(default_zone="UTC")
    add(cache, post())
    add(cache, post(timer=PAST))
    return cache


def post(**members: Any) -> bytes:
    return json.dumps(definition(**members)).encode()


@each_row(
    ("before", "after"),
    [
        (b'"jobName":', b'"jobName":"x","jobName":'),
        (b'"url":', b'"url":"x","url":'),
        (b'"n":', b'"n":"x:y","n":'),
        (b'"period":', b'"period":1,"period":'),
        (b'"jobId":', b'"object\\u0049d":"x","objectId":"x","jobId":'),
        (b'"timer":{"period":"1m"}', b'"timer":"{\\"period\\":\\"1m\\",\\"period\\":\\"1m\\"}"'),
    ],
)
def test_what_has_a_name_twice_is_not_found(before: bytes, after: bytes) -> None:
    """Which its undecoded members do not show: it is left to who looks for the place."""
    cache, body = CompileCache(default_zone="UTC"), [{"url": URL, "body": {"n": 1}}]
    add(cache, write(definition(request=body, timer={"period": "1m"})))
    text = write(definition(request=body, timer={"period": "1m"}, objectId="a:b", labels={"x": "y"}))
    text = text.replace(b": ", b":")
    assert find(cache, text) is not None
    assert before in text
    assert find(cache, text.replace(before, after, 1)) is None


def test_a_definition_has_the_warnings_of_the_moment() -> None:
    """Warnings that need no moment come first; an unknown shape is not found."""
    lookup = BatchLookup(cache=filled_cache(), now=START)
    for timer in TIMERS:
        text = post(jobId="other", timer=timer)
        compiled = compile_definition(parse_definition(msgspec.json.decode(text)), Surroundings())
        late = below_timer(warnings_at(compiled.program.timer, START))
        assert bool(late) is (timer is not TIMERS[1])
        found = lookup.find(read_members(text) or {}, count_colons(text))
        assert found is not None
        assert found.program == compiled.program
        assert found.warnings == (*compiled.warnings, *late)
    assert lookup.find(read_members(post(maxRetries=9)) or {}, 0) is None
    assert lookup.find({}, 0) is None


def test_the_warnings_of_a_timer_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definitions of a batch mostly share one timer."""
    checked: list[Timer] = []

    def check(timer: Timer, anchor: int) -> Any:
        checked.append(timer)
        return warnings_at(timer, anchor)

    monkeypatch.setattr(compile_cache, "warnings_at", check)
    lookup = BatchLookup(cache=filled_cache(), now=START)
    for number in range(20):
        text = post(jobId=f"j{number}", timer=PAST)
        found = lookup.find(read_members(text) or {}, count_colons(text))
        assert found is not None
        assert [one.code for one in found.warnings] == ["in_the_past"]
    assert len(checked) == 1
    text = post(timer={**PAST, "jitterSeconds": 1})
    lookup.find(read_members(text) or {}, count_colons(text))
    assert len(checked) == 2


def read(own: OwnMembers, text: bytes) -> object:
    """What `own` says of a definition."""
    members = read_members(text)
    assert members is not None
    return dict(own.read(members))


def expected(name: str, labels: dict[str, str] | None = None, owned: str | None = None) -> object:
    """A definition's own members."""
    return {"jobName": name, "jobDescription": None, "objectId": owned, "labels": labels or {}}


def test_each_definition_has_its_own() -> None:
    """Also where the one before it had others, or left some out."""
    own = OwnMembers()
    for _ in range(2):
        assert read(own, b'{"jobName":"a"}') == expected("a")
        assert read(own, b'{"jobName":"a","objectId":"o"}') == expected("a", owned="o")
        assert read(own, b'{"jobName":"a","labels":{"o":"p"}}') == expected("a", {"o": "p"})
        assert read(own, b'{"jobName":"a","labels":{"o":"q"}}') == expected("a", {"o": "q"})
        assert read(own, b'{"jobName":"b","labels":null}') == expected("b")
    # An array of jobs of one name costs one reading of it
    own = OwnMembers()
    first = own.read({"jobName": msgspec.Raw(b'"a"'), "jobId": msgspec.Raw(b'"1"')})
    assert own.read({"jobName": msgspec.Raw(b'"a"'), "jobId": msgspec.Raw(b'"2"')}) is first


@each_row("wrong", [b'{"jobName":""}', b'{"jobName":"a","labels":{"":1}}'])
def test_what_is_wrong_stays_wrong(wrong: bytes) -> None:
    """It is not kept in the place of what was right before it."""
    own = OwnMembers()
    assert read(own, b'{"jobName":"a"}') == expected("a")
    for _ in range(2):
        with pytest.raises(ValidationError):
            read(own, wrong)
    assert read(own, b'{"jobName":"a"}') == expected("a")
