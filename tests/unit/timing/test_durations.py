"""Durations and times as text, and addition by the calendar (SPEC section 3)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import DAY, HOUR, MINUTE, SECOND, as_moment, rfc3339
from scheduler_service.timing.durations import Duration, parse_duration, parse_repeats, shift
from scheduler_service.timing.times import local_text, parse_time
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row


def at(text: str) -> int:
    return as_moment(datetime.fromisoformat(text).astimezone(UTC))


@each_row(
    ("text", "ms"),
    [
        ("0h0m2s", 2 * SECOND),
        ("2s", 2 * SECOND),
        ("3m", 3 * MINUTE),
        ("2h30m", 150 * MINUTE),
        ("1d2h0m2s", DAY + 2 * HOUR + 2 * SECOND),
        ("500ms", 500),
        ("5d3s", 5 * DAY + 3 * SECOND),
        ("1.5h", 90 * MINUTE),
        ("0s", 0),
        ("0", 0),
        ("PT2H30M", 150 * MINUTE),
        ("PT3S", 3 * SECOND),
        ("PT0.25S", 250),
        ("PT0,25S", 250),
        ("PT0S", 0),
    ],
)
def test_clock_durations_have_their_length(text: str, ms: int) -> None:
    """SPEC section 3: both grammars give milliseconds."""
    assert parse_duration(text) == Duration(ms=ms)


@each_row(
    ("text", "duration"),
    [
        ("P1DT1H20M10S", Duration(days=1, ms=HOUR + 20 * MINUTE + 10 * SECOND)),
        ("P2W", Duration(days=14)),
        ("P1Y6M", Duration(months=18)),
        ("P1M", Duration(months=1)),
        ("PT1M", Duration(ms=MINUTE)),
        ("P1Y2M3W4DT5H", Duration(months=14, days=25, ms=5 * HOUR)),
    ],
)
def test_iso_dates_go_by_the_calendar(text: str, duration: Duration) -> None:
    """SPEC section 3: days, weeks, months and years are kept until a calendar applies."""
    assert parse_duration(text) == duration


@each_row(
    "text",
    [
        *("", " ", "P", "PT", "P1", "P1DT", "PT1H1D", "P1H", "PT1.5H", "P1M1Y", "pt5s", "PT5s", "-PT5S"),
        *("5", "-5s", "2 s", "2s ", " 2s", "2S", "1w", "1mo", "1e3s", "s", ".s", "２s", "2hm", "--2s"),
        *("R4/PT3S", "P14000Y", "2562048h", "1" * 300 + "s", "P1Y\n", "2s\n", "P" + "9" * 30 + "D"),
    ],
)
def test_other_durations_are_refused(text: str) -> None:
    """SPEC section 3: the grammars are strict."""
    with pytest.raises(ExpressionError):
        parse_duration(text)


def test_a_duration_is_never_rounded_to_nothing() -> None:
    """SPEC section 3: moments are kept to the millisecond; a period must not become 0, which means once."""
    assert parse_duration("12us").ms == 1
    assert parse_duration("1ns").ms == 1
    assert parse_duration("1500us").ms == 2
    assert parse_duration("PT0.0001S").ms == 1


@each_row(
    ("text", "count", "duration"),
    [
        ("R4/PT3S", 4, Duration(ms=3 * SECOND)),
        ("R1/P1M", 1, Duration(months=1)),
        ("R04/PT3S", 4, Duration(ms=3 * SECOND)),
        ("5m", None, Duration(ms=5 * MINUTE)),
    ],
)
def test_repetitions_are_read(text: str, count: int | None, duration: Duration) -> None:
    """SPEC section 3: `Rn/<ISO duration>`."""
    assert parse_repeats(text) == (count, duration)


@each_row(
    "text",
    [
        *("R0/PT3S", "R/PT3S", "R-1/PT3S", "R4", "R4/", "R4/P", "R4PT3S", "R4//PT3S", "4R/PT3S", "R4/3s"),
        *("R4/R4/PT3S", "R99999999999999999999/PT1S", "R+4/PT3S", "r4/PT3S", "R4/2023-10-01T09:00:00Z/PT3S"),
    ],
)
def test_other_repetitions_are_refused(text: str) -> None:
    """SPEC section 3: n is at least 1 and given, and an ISO duration follows."""
    with pytest.raises(ExpressionError):
        parse_repeats(text)


@each_row(
    ("start", "text", "times", "end"),
    [
        ("2024-01-31T10:00:00Z", "P1M", 1, "2024-02-29T10:00:00Z"),
        ("2024-01-31T10:00:00Z", "P1M", 2, "2024-03-31T10:00:00Z"),
        ("2024-02-29T10:00:00Z", "P1Y", 1, "2025-02-28T10:00:00Z"),
        ("2024-02-29T10:00:00Z", "P1Y", 4, "2028-02-29T10:00:00Z"),
        ("2024-12-31T23:59:59Z", "P1M1D", 1, "2025-02-01T23:59:59Z"),
        ("2024-01-31T10:00:00Z", "P1MT1H", 1, "2024-02-29T11:00:00Z"),
        ("1969-12-31T10:00:00Z", "P1M", 2, "1970-02-28T10:00:00Z"),
    ],
)
def test_months_are_clamped_and_counted_from_the_anchor(start: str, text: str, times: int, end: str) -> None:
    """SPEC section 3: clamped to the month's end, counted from the anchor: no clamping adds up."""
    assert shift(at(start), parse_duration(text), times, load_zone("UTC")) == at(end)


def test_a_calendar_day_keeps_the_local_time_and_24_hours_do_not() -> None:
    """SPEC section 3: P1D goes by the calendar of the zone, 1d is 24 hours."""
    berlin = load_zone("Europe/Berlin")
    start = at("2024-03-30T09:00:00+01:00")
    assert shift(start, parse_duration("P1D"), 1, berlin) == at("2024-03-31T09:00:00+02:00")
    assert shift(start, parse_duration("1d"), 1, berlin) == at("2024-03-31T10:00:00+02:00")
    # An addition never raises, however often it is done
    utc = load_zone("UTC")
    for text in ("P9999Y", "P1D", "1h", "P1M", "PT1H"):
        assert shift(at("2024-01-01T00:00:00Z"), parse_duration(text), 10**18, utc) is None


@given(
    start=st.integers(-(10**12), 5 * 10**12),
    months=st.integers(0, 30),
    days=st.integers(0, 60),
    ms=st.integers(0, 10**8),
    times=st.integers(0, 50),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
@settings(deadline=None)
def test_addition_never_falls(start: int, months: int, days: int, ms: int, times: int, zone: str) -> None:
    """More times is never earlier; that is what the search for an index rests on."""
    duration = Duration(months, days, ms)
    earlier = shift(start, duration, times, load_zone(zone))
    later = shift(start, duration, times + 1, load_zone(zone))
    assert earlier is not None
    assert later is not None
    assert earlier <= later


@each_row(
    ("text", "zone", "utc"),
    [
        ("2023-10-01 09:00:01", "Asia/Shanghai", "2023-10-01T01:00:01.000Z"),
        ("2023-10-1 09:00:01", "Asia/Shanghai", "2023-10-01T01:00:01.000Z"),
        ("2023-10-1 9:00:01.5", "UTC", "2023-10-01T09:00:01.500Z"),
        ("2023-10-01T09:00:01", "Asia/Shanghai", "2023-10-01T01:00:01.000Z"),
        ("2023-10-01T09:00:01Z", "Asia/Shanghai", "2023-10-01T09:00:01.000Z"),
        ("2023-10-01t09:00:01.123456z", "Asia/Shanghai", "2023-10-01T09:00:01.123Z"),
        ("2023-10-01 09:00:01-08:00", "UTC", "2023-10-01T17:00:01.000Z"),
        ("2023-10-01T09:00:01+05:30", "UTC", "2023-10-01T03:30:01.000Z"),
        ("2024-03-31 02:30:00", "Europe/Berlin", "2024-03-31T01:00:00.000Z"),
        ("2024-10-27 02:30:00", "Europe/Berlin", "2024-10-27T00:30:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "UTC", "1969-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_local_unless_they_have_an_offset(text: str, zone: str, utc: str) -> None:
    """Local to `timezone`; a skipped time is the gap's end, a doubled one its first (SPEC section 3)."""
    assert rfc3339(parse_time(text, load_zone(zone))) == utc


@each_row(
    "text",
    [
        *("", "2023-10-01", "09:00:01", "2023-02-29 09:00:01", "2023-13-01 09:00:01", "2023-10-01 24:00:00"),
        *("2023-10-01 09:60:00", "2023-10-01 09:00:60", "2016-12-31T23:59:60Z", "23-10-01 09:00:01"),
        *(
            "2023-10-01 09:00:01 ",
            "2023-10-01  09:00:01",
            "2023-10-01 09:00:01 UTC",
            "2023-10-01T09:00:01+0800",
        ),
        *(
            "2023-10-01T09:00:01+25:00",
            "2023-10-01T09:00:01+00:60",
            "0000-01-01 00:00:00",
            "20231001T090001Z",
        ),
        *(
            "2023-10-1T09:00:01Z",
            "2023-10-01T9:00:01Z",
            "２023-10-01 09:00:01",
            "2023-10-01T09:00:01Z\n",
            "5m",
        ),
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_other_times_are_refused(text: str) -> None:
    """SPEC section 3: the forms are strict, and so is the calendar."""
    with pytest.raises(ExpressionError):
        parse_time(text, load_zone("UTC"))


def test_local_text_names_its_offset() -> None:
    """SPEC section 3: local and UTC times are shown."""
    moment = parse_time("2023-10-01T09:00:01.250Z", load_zone("UTC"))
    assert local_text(moment, load_zone("Asia/Shanghai")) == "2023-10-01T17:00:01.250+08:00"
    assert local_text(moment, load_zone("America/New_York")) == "2023-10-01T05:00:01.250-04:00"
    assert local_text(moment, load_zone("UTC")) == "2023-10-01T09:00:01.250+00:00"
