"""Timers compiled from their texts (SPEC section 3)."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler_service.domain.errors import DefinitionError, ExpressionError
from scheduler_service.domain.moments import HOUR, MINUTE, SECOND
from scheduler_service.timing import durations
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.durations import Duration, parse_duration, parse_repeats
from scheduler_service.timing.timer import TimerText, compile_timer, is_period
from scheduler_service.timing.times import parse_time
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row


def problems(**members: object) -> dict[str, str]:
    """Pointer and code of everything that is wrong with a timer."""
    with pytest.raises(DefinitionError) as caught:
        compile_timer(TimerText(**members), default_zone="UTC")  # type: ignore[arg-type]
    return {problem.pointer: problem.code for problem in caught.value.problems}


@each_row(
    ("due_time", "period", "kind"),
    [
        (None, None, "one_time"),
        ("", "5m", "one_time"),
        ("1h", "", "one_time"),
        (None, "5m", "one_time"),
        ("1h", None, "one_time"),
        (" ", "5m", "one_time"),
        (None, "0 0 9 * * ?", "cron"),
        ("", "@daily", "cron"),
        (None, "external", "external"),
        ("10s", "R4/PT3S", "timing"),
        ("2023-10-01 09:00:01", "0s", "timing"),
        ("1h", "5m", "timing"),
        ("0s", "P1M", "timing"),
        ("0s", "0 */1 * * * ?", "cron"),
        ("0s", "1 0 9 1 10 ? 2023", "cron"),
        ("0s", "*/5 * * * *", "cron"),
        ("0s", "@daily", "cron"),
        ("0s", "external", "external"),
    ],
)
def test_due_time_and_period_make_the_kind(due_time: str | None, period: str | None, kind: str) -> None:
    """SPEC section 3, table of kinds."""
    assert compile_timer(TimerText(due_time=due_time, period=period), default_zone="UTC").kind == kind


def test_no_timer_is_one_time_in_the_default_zone() -> None:
    """SPEC section 3: fires once, now."""
    timer = compile_timer(None, default_zone="Asia/Shanghai")
    assert (timer.kind, timer.zone.name, timer.warnings) == ("one_time", "Asia/Shanghai", ())
    # SPEC section 3: `"0s"`: once, at `dueTime`
    for period in ("0s", "PT0S", "0", "P0D"):
        assert compile_timer(TimerText(due_time="1m", period=period), default_zone="UTC").repeats == 1
    assert compile_timer(TimerText(due_time="1m", period="5m"), default_zone="UTC").repeats is None


def test_a_timing_has_all_its_parts() -> None:
    """SPEC section 3: moments in the timer's own zone."""
    text = TimerText(
        due_time="2023-10-01 09:00:01",
        period="R4/PT3S",
        ttl="5d3s",
        timezone="Asia/Shanghai",
        start_at="2023-10-1 09:00:00",
        end_at="2023-10-01T10:00:00Z",
        misfire_policy="skip",
        misfire_grace=5_000,
        misfire_limit=7,
        jitter=30_000,
    )
    timer = compile_timer(text, default_zone="UTC")
    nine = 1_696_122_000_000
    assert (timer.due, timer.start_at, timer.end_at) == (nine + SECOND, nine, nine + 9 * HOUR)
    assert (timer.period, timer.repeats) == (Duration(ms=3 * SECOND), 4)
    assert timer.ttl == Duration(ms=120 * HOUR + 3 * SECOND)
    assert (timer.misfire_policy, timer.misfire_grace, timer.misfire_limit) == ("skip", 5_000, 7)
    assert timer.jitter == 30_000


@each_row("period", ["0s", "0 0 9 * * ?", "@daily", "external", ""])
def test_a_fixed_delay_needs_a_duration(period: str) -> None:
    """SPEC section 3: `periodFrom` `end` only with a duration as `period`; `start` says what holds anyway."""
    assert problems(due_time="0s", period=period, period_from="end") == {"/periodFrom": "invalid"}
    assert not compile_timer(TimerText(due_time="0s", period=period), default_zone="UTC").from_end


@each_row(
    ("members", "expected"),
    [
        ({"due_time": "soon", "period": "5m"}, {"/dueTime": "invalid"}),
        ({"due_time": "2023-02-29 09:00:01", "period": "5m"}, {"/dueTime": "invalid"}),
        ({"due_time": "R4/PT3S", "period": "5m"}, {"/dueTime": "invalid"}),
        ({"due_time": "0s", "period": "R0/PT3S"}, {"/period": "invalid"}),
        ({"due_time": "0s", "period": "R4/PT0S"}, {"/period": "invalid"}),
        ({"due_time": "0s", "period": "hourly"}, {"/period": "invalid"}),
        ({"due_time": "0s", "period": "-5m"}, {"/period": "invalid"}),
        ({"due_time": "0s", "period": "External"}, {"/period": "invalid"}),
        ({"due_time": "0s", "period": "0 0 0 30 2 ?"}, {"/period": "never_fires"}),
        ({"due_time": "0s", "period": "@reboot"}, {"/period": "invalid"}),
        ({"ttl": "forever"}, {"/ttl": "invalid"}),
        ({"ttl": ""}, {"/ttl": "invalid"}),
        ({"timezone": "Mars/Olympus"}, {"/timezone": "unknown_zone"}),
        ({"start_at": "1h"}, {"/startAt": "invalid"}),
        ({"end_at": "tomorrow"}, {"/endAt": "invalid"}),
        ({"start_at": "2024-01-02 00:00:00", "end_at": "2024-01-01 00:00:00"}, {"/endAt": "invalid"}),
        ({"misfire_policy": "later"}, {"/misfire/policy": "invalid"}),
        ({"misfire_grace": -1}, {"/misfire/graceSeconds": "invalid"}),
        ({"misfire_limit": 0}, {"/misfire/limit": "invalid"}),
        ({"misfire_limit": 10_001}, {"/misfire/limit": "invalid"}),
        ({"jitter": -1}, {"/jitterSeconds": "invalid"}),
    ],
)
def test_what_is_wrong_is_named(members: dict[str, object], expected: dict[str, str]) -> None:
    """SPEC sections 3 and 4: refused when the job is created, with a JSON Pointer."""
    assert problems(**members) == expected


@each_row(
    ("text", "said"),
    [
        ("P2H", "; hours, minutes and seconds stand behind T: write 'PT2H'"),
        ("P1D30S", "; hours, minutes and seconds stand behind T: write 'P1DT30S'"),
        ("PT1,5H", "; only seconds have decimals: write 'PT1H30M'"),
        ("PT0.5M", "; only seconds have decimals: write 'PT30S'"),
        ("1,5h", "; write '1.5h'"),
        ("1h,30m", "; write '1h30m'"),
        ("rate(5 minutes)", "; write '5m'"),
        ("at(2026-10-01T09:00:00)", "; write '2026-10-01 09:00:00'"),
        ("tomorrow", "is neither a moment nor a duration; write 2023-10-01 09:00:01 or"),
        ("next monday", "is neither a moment nor a duration"),
        ("09:00", "is neither a moment nor a duration"),
        ("12:30:00", "or a delay like 2h30m"),
        ("now", "; for at once write '0s'"),
        ("in 5 minutes", "; write '5m'"),
        ("5 minutes", "; write '5m'"),
        ("1 hour 30 minutes", "; write '1h30m'"),
        ("1 hour and 2 secs", "; write '1h2s'"),
        ("5 months and 2 days", "is not a duration"),
        ("1769907600", "; as seconds since 1970 it is '2026-02-01T01:00:00Z': moments are written so"),
        ("1769907600123", "; as milliseconds since 1970 it is '2026-02-01T01:00:00Z'"),
        ("2026/10/1 9:00", "; write '2026-10-01 09:00:00'"),
        ("2026-10-01", "; write '2026-10-01 00:00:00'"),
        ("2026-10-01T09:00Z", "; write '2026-10-01T09:00:00Z'"),
        ("20261001T090000+0800", "; write '2026-10-01T09:00:00+08:00'"),
        ("2026-10-01 09:00:00 UTC", "; write '2026-10-01T09:00:00Z'"),
        ("2026-13-01 09:00", "is not a time; write it like 2023-10-01 09:00:01"),
    ],
)
def test_what_people_write_as_a_moment_gets_its_remedy(text: str, said: str) -> None:
    """The forms of `dueTime`, or the very text to write (SPEC section 3)."""
    with pytest.raises(DefinitionError) as refused:
        compile_timer(TimerText(due_time=text, period="0s"), default_zone="UTC")
    [problem] = refused.value.problems
    assert said in problem.message


@each_row(
    ("period", "said"),
    [
        ("P5M", ["'P5M' is 5 months; 5 minutes are 'PT5M'"]),
        ("R4/P30M", ["'R4/P30M' is 30 months; 30 minutes are 'PT30M'"]),
        *((period, []) for period in ("P1M", "P3M", "P12M", "P24M", "PT5M", "P1Y5M", "5m")),
    ],
)
def test_months_that_may_be_meant_as_minutes_are_said(period: str, said: list[str]) -> None:
    """A year has no whole number of them (SPEC section 3)."""
    text = TimerText(due_time="2030-01-01 00:00:00", period=period)
    compiled = compile_timer(text, default_zone="UTC")
    assert [one.message for one in compiled.warnings if one.code == "months"] == said


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """One round is enough to repair a definition."""
    assert set(problems(due_time="x", period="5 minutes", ttl="y", end_at="z", jitter=-1)) == {
        "/period",
        "/ttl",
        "/endAt",
        "/jitterSeconds",
    }


@each_row(
    ("due_time", "period", "codes"),
    [
        ("1h", None, ["due_time_ignored"]),
        ("1h", "", ["due_time_ignored"]),
        ("0s", None, ["due_time_ignored"]),
        ("", "5m", ["period_ignored"]),
        ("", "", []),
        ("", "0 0 9 * * ?", []),
        (None, "external", []),
        (None, None, []),
        ("0s", "0 0 9 * * ?", []),
        ("0h0m0s", "0 0 9 * * ?", []),
        ("2s", "0 0 9 * * ?", ["due_time_ignored"]),
        ("2023-10-01 09:00:01", "0 0 9 * * ?", ["due_time_ignored"]),
        ("0s", "external", []),
        ("2s", "external", ["due_time_ignored"]),
        ("1h", "5m", []),
    ],
)
def test_what_is_ignored_is_said(due_time: str | None, period: str | None, codes: list[str]) -> None:
    """`due_time_ignored`, for cron when it is not zero; an ignored period is reported (SPEC section 3)."""
    timer = compile_timer(TimerText(due_time=due_time, period=period), default_zone="UTC")
    assert [warning.code for warning in timer.warnings] == codes


pieces = st.sampled_from(
    ["0s", "5m", "PT1M", "P1M", "R3/", "2024-01-31 10:00:00", "0 * * * * ?", "UTC", "@daily"]
)
texts = (
    st.none() | pieces | st.text(max_size=9) | st.builds(str.__add__, pieces, st.text(max_size=4) | pieces)
)


@given(due_time=texts, period=texts, ttl=texts, timezone=texts, start_at=texts, end_at=texts)
@settings(deadline=None)
def test_no_text_raises_anything_but_a_definition_error(**members: str | None) -> None:
    """Only parsers raise, each its one error."""
    try:
        timer = compile_timer(TimerText(**members), default_zone="UTC")  # type: ignore[arg-type]
    except DefinitionError:
        return
    assert timer.misfire_grace == MINUTE


@each_row("due_time", [None, "", "0s", "1h"])
@each_row("period", ["5", "blah", "R0/PT3S", "R/PT3S", "R4/PT0S", "-5m", "Cron"])
def test_a_period_that_is_none_is_refused_with_or_without_due_time(due_time: str | None, period: str) -> None:
    """A `period` is a duration, cron or `external`, whether it has an effect or not (SPEC section 3)."""
    with pytest.raises(DefinitionError) as refused:
        compile_timer(TimerText(due_time=due_time, period=period), default_zone="UTC")
    assert [problem.pointer for problem in refused.value.problems] == ["/period"]
    assert not is_period(period)


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
