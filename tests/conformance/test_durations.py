"""The conformance data on durations and times, judged by SPEC section 3.

What is left out, and why, stands in `durations_left_out.md` beside this file.
"""

import re
from datetime import UTC, datetime

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import as_moment
from scheduler_service.timing.durations import Duration, parse_duration, parse_repeats, shift
from scheduler_service.timing.times import parse_time
from scheduler_service.timing.zones import load_zone
from tests import conformance_data
from tests.conformance_data import Row

NANOSECONDS = 1_000_000


def rows(*sets: str) -> list[Row]:
    return [row for row in conformance_data.rows("durations") if row["set"] in sets]


def read_repeats(text: str) -> tuple[int | None, Duration] | None:
    try:
        return parse_repeats(text)
    except ExpressionError:
        return None


def read_time(text: str) -> int | None:
    try:
        return parse_time(text, load_zone("UTC"))
    except ExpressionError:
        return None


def has_default_zone(row: Row) -> bool:
    """Whether the row's parser was given a zone for texts that name none."""
    naive = re.search(r"([Zz]|[+-][0-9:]+)$", row["input"][10:]) is None
    return naive and datetime.fromisoformat(row["expect"]["at"]).tzinfo is not None


def same_length(duration: Duration, months: float, days: int, nanoseconds: float) -> bool:
    """Equal to the millisecond."""
    length = duration.days * 86_400_000 + duration.ms
    return duration.months == months and abs(length - days * 86_400_000 - nanoseconds / NANOSECONDS) <= 1


def fits_oracle(row: Row) -> bool:
    """Whether the oracle's ruling is met: its value, a refusal, or either of them."""
    read = read_repeats(row["input"])
    if row["ruling"] == "refuse":
        return read is None
    if read is None:
        return bool(row["ruling"] == "document")
    answer = row["dapr_kit_ParseDuration" if row["dapr_kit_ParseDuration"]["ok"] else "go_time_ParseDuration"]
    if not answer["ok"]:
        return bool(row["ruling"] == "document")
    if row["ruling"] == "document" and row["input"].startswith("PT9999"):
        return False  # the oracle wrapped: only a refusal is right
    repeats = None if answer.get("repeats", -1) < 0 else answer["repeats"]
    months = answer.get("years", 0) * 12 + answer.get("months", 0)
    return read[0] == repeats and same_length(read[1], months, answer.get("days", 0), answer["ns"])


def test_the_oracle_s_rulings() -> None:
    """SPEC section 3: what Go and dapr/kit make of a text, where that is right; else a refusal."""
    assert [row["id"] for row in rows("duration-oracle") if not fits_oracle(row)] == []


def test_iso_8601_durations() -> None:
    """A text of the grammar has its value, another is refused (SPEC section 3); `may` rows allow both."""

    def is_right(row: Row) -> bool:
        expect = row["expect"]
        try:
            read = parse_duration(row["input"])
        except ExpressionError:
            return not expect["ok"] or row.get("strictness") == "may"
        if not expect["ok"]:
            return row.get("strictness") == "may"
        if "seconds" not in expect:
            return True
        months = expect["years"] * 12 + expect["months"]
        return same_length(read, months, 0, expect["seconds"] * 1_000 * NANOSECONDS)

    wrong = [row for row in rows("iso8601-duration", "iso8601-duration-grammar") if not is_right(row)]
    assert [row["id"] for row in wrong] == []


def test_units_without_p_are_no_iso_durations_but_ours() -> None:
    """SPEC section 3: texts like `3D` are refused by both grammars."""
    units = [row for row in rows("iso8601-duration") if row["input"][:1].isdigit()]
    assert units
    assert [row["id"] for row in units if read_repeats(row["input"])] == []


def test_calendar_additions_are_clamped() -> None:
    """SPEC section 3: clamped to the month's end, counted from the anchor."""
    utc = load_zone("UTC")
    for row in rows("calendar-add"):
        given, start = row["input"], datetime.fromisoformat(row["input"]["start"])
        duration = Duration(given["years"] * 12 + given["months"], given["days"])
        end = datetime.fromisoformat(row["expect"]["clamp_to_month_end"])
        assert shift(as_moment(start), duration, 1, utc) == as_moment(end), row["id"]


def test_fixed_times() -> None:
    """SPEC section 3, times; where the data lets the product choose, it refuses or means the same."""
    for row in rows("fixed-time", "rfc3339-datetime-grammar"):
        expect, read = row["expect"], read_time(row["input"])
        if expect["ok"] is False:
            assert read is None, row["id"]
        elif expect["ok"] is True and row.get("strictness") != "may":
            assert read is not None, row["id"]
            if "at" in expect:
                assert read == as_moment(_aware(expect["at"])), row["id"]


def test_iso_8601_times_that_are_read_mean_the_same() -> None:
    """SPEC section 3 accepts few of the forms; accepted ones mean the same as in other parsers."""
    read = 0
    for row in rows("iso8601-datetime"):
        moment = read_time(row["input"])
        if moment is None or not row["expect"]["ok"] or has_default_zone(row):
            continue
        read += 1
        assert moment == as_moment(_aware(row["expect"]["at"])), row["id"]
    assert read > 100


def _aware(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo else value.replace(tzinfo=UTC)
