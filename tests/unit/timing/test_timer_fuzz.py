"""Whatever comes from outside, each parser reads it or raises its own error (SPEC section 3).

How long a hostile text may take is held by limits of length and number, which are tested here.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler_service.domain.errors import DefinitionError, ExpressionError
from scheduler_service.timing import durations
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.durations import parse_duration, parse_repeats
from scheduler_service.timing.timer import TimerText, compile_timer
from scheduler_service.timing.times import parse_time
from scheduler_service.timing.zones import load_zone

UTC = load_zone("UTC")
MANY = 10_000
BYTES = st.binary(max_size=MANY).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
LETTERS = st.text("0123456789*/-,?LW#@ PTYMWDHSRnsuμm.:+Z\t\u0661\x00", max_size=MANY)
REPEATED = st.builds(
    lambda piece, count: (piece * count)[:MANY], st.text(min_size=1, max_size=12), st.integers(1, MANY)
)
TEXTS = BYTES | LETTERS | REPEATED
PARSERS: dict[str, Callable[[str], object]] = {
    "cron": parse_cron,
    "duration": parse_duration,
    "repeats": parse_repeats,
    "time": lambda text: parse_time(text, UTC),
    "zone": load_zone,
}


def refusal(parse: Callable[[str], object], text: str) -> ExpressionError | None:
    try:
        parse(text)
    except ExpressionError as error:
        return error
    return None


@pytest.mark.parametrize("name", PARSERS)
@settings(deadline=None, max_examples=60)
@given(TEXTS)
@example("0" * MANY)
@example("9" * 300 + "s")
@example("R" + "9" * 20 + "/PT1S")
@example("P" + "9" * 190 + "Y")
@example("2023-10-01 00:00:00." + "9" * 31)
@example("0001-01-01T00:00:00+23:59")
@example("9999-12-31T23:59:59.999999-23:59")
@example("0 0 0 ? 2 " + "6#5," * 200 + "7#5")
@example("\ud800 * * * *")
@example("../Europe/Berlin")
def test_ten_thousand_bytes_are_read_or_refused(name: str, text: str) -> None:
    """A parser raises ExpressionError or nothing, and its message is short enough to be shown."""
    error = refusal(PARSERS[name], text)
    if error is not None:
        assert 0 < len(error.full_message) < 2_000
        assert error.column is None or 0 <= error.column <= len(text)


@settings(deadline=None, max_examples=60)
@given(TEXTS, TEXTS, st.sampled_from(["dueTime", "ttl", "startAt", "endAt", "timezone"]))
def test_a_timer_of_any_texts_is_compiled_or_refused(period: str, other: str, member: str) -> None:
    """`compile_timer` raises DefinitionError or nothing."""
    known = {"dueTime": "due_time", "startAt": "start_at", "endAt": "end_at"}
    texts = {"due_time": "0s", "period": period} | {known.get(member, member): other}
    with suppress(DefinitionError):
        compile_timer(TimerText(**texts), default_zone="UTC")  # type: ignore[arg-type]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["12d", "1.5h", "999ms", ".5s", "7.m"])
def test_many_parts_are_refused_as_fast_as_few(piece: str) -> None:
    """A duration's number is read in one way; with two this would take 2**40 tries (found by fuzzing)."""
    error = refusal(parse_duration, piece * (durations.TEXT_MAX // len(piece) - 1) + "p")
    assert error is not None
    assert "is not a duration" in error.message
