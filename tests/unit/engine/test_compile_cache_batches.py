"""A batch of definitions is looked up as of one moment (SPEC sections 2, 3)."""

import json
from typing import Any

import msgspec
import pytest

from client_sdk.models import parse_definition
from scheduler_service.engine import compile_cache
from scheduler_service.engine.compile import below_timer, compile_definition
from scheduler_service.engine.compile_cache import BatchLookup, CompileCache, posted_active, read_members
from scheduler_service.engine.program import Surroundings
from scheduler_service.timing.firings import warnings_at
from scheduler_service.timing.timer import Timer
from tests.unit.engine.rig import START, definition

PAST = {"dueTime": "2020-01-01 00:00:00", "period": "0s"}
TIMERS: list[dict[str, Any]] = [PAST, {"period": "external"}, {"dueTime": "1h", "period": "0s", "ttl": "1m"}]


def filled_cache() -> CompileCache:
    """A cache with the shape of one definition."""
    cache, text = CompileCache(default_zone="UTC"), write()
    parsed = parse_definition(msgspec.json.decode(text))
    members = read_members(text)
    assert members is not None
    cache.add(members, compile_definition(parsed, Surroundings()), active=posted_active(parsed))
    return cache


def write(**members: Any) -> bytes:
    return json.dumps(definition(**members)).encode()


def test_a_definition_has_the_warnings_of_the_moment() -> None:
    """Warnings that need no moment come first; an unknown shape is not found."""
    lookup = BatchLookup(cache=filled_cache(), now=START)
    for timer in TIMERS:
        text = write(jobId="other", timer=timer)
        compiled = compile_definition(parse_definition(msgspec.json.decode(text)), Surroundings())
        late = below_timer(warnings_at(compiled.program.timer, START))
        assert bool(late) is (timer is not TIMERS[1])
        found = lookup.find(read_members(text) or {})
        assert found is not None
        assert found.program == compiled.program
        assert found.warnings == (*compiled.warnings, *late)
    assert lookup.find(read_members(write(maxRetries=9)) or {}) is None
    assert lookup.find({}) is None


def test_the_warnings_of_a_timer_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definitions of a batch mostly share one timer."""
    checked: list[Timer] = []

    def check(timer: Timer, anchor: int) -> Any:
        checked.append(timer)
        return warnings_at(timer, anchor)

    monkeypatch.setattr(compile_cache, "warnings_at", check)
    lookup = BatchLookup(cache=filled_cache(), now=START)
    for number in range(20):
        found = lookup.find(read_members(write(jobId=f"j{number}", timer=PAST)) or {})
        assert found is not None
        assert [one.code for one in found.warnings] == ["in_the_past"]
    assert len(checked) == 1
    lookup.find(read_members(write(timer={**PAST, "jitterSeconds": 1})) or {})
    assert len(checked) == 2
