"""Definitions that come together are recognized as of one moment (SPEC sections 2, 3)."""

import json
from typing import Any

import msgspec
import pytest

from client_sdk.models import parse_definition
from scheduler_service.engine import compile_cache as recognizing
from scheduler_service.engine.compile import below_timer, compile_definition
from scheduler_service.engine.compile_cache import BatchLookup, CompileCache, posted_active, read_members
from scheduler_service.engine.program import Surroundings
from scheduler_service.timing.firings import warnings_at
from scheduler_service.timing.timer import Timer
from tests.unit.engine.rig import START, definition

PAST = {"dueTime": "2020-01-01 00:00:00", "period": "0s"}
TIMERS: list[dict[str, Any]] = [PAST, {"period": "external"}, {"dueTime": "1h", "period": "0s", "ttl": "1m"}]


def knowing() -> CompileCache:
    """Moulds that know one definition."""
    moulds, text = CompileCache(default_zone="UTC"), write()
    parsed = parse_definition(msgspec.json.decode(text))
    members = read_members(text)
    assert members is not None
    moulds.keep(members, compile_definition(parsed, Surroundings()), active=posted_active(parsed))
    return moulds


def write(**members: Any) -> bytes:
    return json.dumps(definition(**members)).encode()


def test_what_is_recognized_has_all_warnings_of_its_moment() -> None:
    """Those of the timer at that moment behind those that need none; what nobody knows is nothing."""
    recognition = BatchLookup(moulds=knowing(), now=START)
    for timer in TIMERS:
        text = write(jobId="other", timer=timer)
        compiled = compile_definition(parse_definition(msgspec.json.decode(text)), Surroundings())
        late = below_timer(warnings_at(compiled.program.timer, START))
        assert bool(late) is (timer is not TIMERS[1])
        found = recognition.recognize(read_members(text) or {})
        assert found is not None
        assert found.program == compiled.program
        assert found.warnings == (*compiled.warnings, *late)
    assert recognition.recognize(read_members(write(maxRetries=9)) or {}) is None
    assert recognition.recognize({}) is None


def test_a_timer_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions that come together mostly have one timer; two timers are two, whatever they say."""
    looked: list[Timer] = []

    def look(timer: Timer, anchor: int) -> Any:
        looked.append(timer)
        return warnings_at(timer, anchor)

    monkeypatch.setattr(recognizing, "warnings_at", look)
    recognition = BatchLookup(moulds=knowing(), now=START)
    for number in range(20):
        found = recognition.recognize(read_members(write(jobId=f"j{number}", timer=PAST)) or {})
        assert found is not None
        assert [one.code for one in found.warnings] == ["in_the_past"]
    assert len(looked) == 1
    recognition.recognize(read_members(write(timer={**PAST, "jitterSeconds": 1})) or {})
    assert len(looked) == 2
