"""Durations: parsed from text, and added to a moment any number of times."""

import re
from datetime import UTC, datetime

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import DAY, as_datetime, as_moment, month_length
from scheduler_service.timing.zones import Zone

LATEST = as_moment(datetime(9999, 12, 31, tzinfo=UTC)) - 1  # local times of all zones still fit into a date
MONTHS_MAX = 9_999 * 12
DAYS_MAX = 3_652_059
MS_MAX = DAYS_MAX * DAY
NANOSECONDS_MAX = (1 << 63) - 1  # what Go's duration holds
REPEATS_MAX = 1_000_000_000
TEXT_MAX = 200

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_WORDS = (
    (("sec", "secs", "second", "seconds"), "{}s"),
    (("min", "mins", "minute", "minutes"), "{}m"),
    (("hr", "hrs", "hour", "hours"), "{}h"),
    (("day", "days"), "{}d"),
    (("w", "week", "weeks"), "P{}W"),
    (("mo", "month", "months"), "P{}M"),
    (("y", "year", "years"), "P{}Y"),
)
COMMA = re.compile(r"(?<=[0-9]),(?=[0-9])")
"""Before decimals."""
_RATE = re.compile(r"rate\((.{1,40})\)", re.IGNORECASE)
_SPOKEN = re.compile(r"([0-9]{1,9}) ?([A-Za-z]*)")
_SPOKEN_PARTS = re.compile(r"([0-9]{1,9}) ?([A-Za-z]+)")
_SPOKEN_TEXT = re.compile(r"[0-9]{1,9} ?[A-Za-z]+(?:(?:,| and|) [0-9]{1,9} ?[A-Za-z]+){1,6}")
# A number matches in one way only: with two ways, refusing a text of n parts would take 2**n tries.
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d)"
_PARTS = re.compile(rf"\+?((?:{_PART})+)")
_EACH = re.compile(_PART)
_ISO = re.compile(
    r"P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)W)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:[.,]([0-9]+))?S)?)?"
)
# ISO 8601 as people write it: hours and minutes without the T, decimals of them.
_LOOSE_ISO = re.compile(
    r"P(?:([0-9]{1,9})D)?T?(?:([0-9]{1,9}(?:[.,][0-9]{1,9})?)H)?(?:([0-9]{1,9}(?:[.,][0-9]{1,9})?)M)?"
    r"(?:([0-9]{1,9}(?:[.,][0-9]{1,9})?)S)?"
)
_EPOCH_TEXT = re.compile(r"[0-9]{10}(?:[0-9]{3})?(?:\.[0-9]+)?")
_REPEATS = re.compile(r"R([0-9]{1,20})/(.*)", re.DOTALL)


class Duration(msgspec.Struct, frozen=True, gc=False):
    """A length of time: `months` and `days` follow a zone's calendar, `ms` the clock. None is negative."""

    months: int = 0
    days: int = 0
    ms: int = 0

    @property
    def is_zero(self) -> bool:
        """Whether it has no length at all."""
        return not (self.months or self.days or self.ms)


def parse_duration(text: str) -> Duration:
    """The duration in `text`, in one of the two grammars of SPEC section 3. Raises ExpressionError.

    `1d2h0m2s`: units d, h, m, s, ms, us, ns as in Go; a day has 24 hours. `P1DT1H20M10S`: ISO 8601; days,
    weeks, months and years follow the calendar, and only seconds may have decimals. Rounded to the
    millisecond, but never to 0. Signs, blanks and lower case in ISO 8601 are refused.
    """
    if len(text) > TEXT_MAX:
        raise ExpressionError(f"a duration has at most {TEXT_MAX} characters, this one has {len(text)}")
    if text == "0":
        return Duration()
    if text.startswith("P"):
        return _read_iso(text)
    return _read_units(text)


def parse_repeats(text: str) -> tuple[int | None, Duration]:
    """Count and period of `Rn/<ISO 8601 duration>`, n ≥ 1; of a plain duration (None, duration).

    Raises ExpressionError, for `R0/…`, `R/…` and `R-1/…` too (SPEC section 3).
    """
    if not text.startswith("R"):
        return None, parse_duration(text)
    match = _REPEATS.fullmatch(text)
    if match is None:
        raise ExpressionError(
            f"{text[:TEXT_MAX]!r} is not a repetition; write Rn/ and an ISO 8601 duration, as in R4/PT3S"
        )
    count = int(match[1])
    if not 1 <= count <= REPEATS_MAX:
        raise ExpressionError(f"{count} repetitions are not possible; give 1 to {REPEATS_MAX}", column=1)
    if not match[2].startswith("P"):
        raise ExpressionError(
            f"{match[2][:TEXT_MAX]!r} is not an ISO 8601 duration; Rn/ needs one, as in R4/PT3S",
            column=match.start(2),
        )
    return count, parse_duration(match[2])


def shift(moment: int, duration: Duration, times: int, zone: Zone, local: int | None = None) -> int | None:
    """`moment` plus `times` (≥ 0) durations, counted from `moment` itself, so that clamping does not add up.

    Months and days keep the local time of day and are clamped to the month's end; a local time that is
    skipped becomes the first instant after the gap, one that occurs twice its first occurrence. None: the
    result is after the year 9999. Never falls as `times` rises. `local`: the local time of `moment`, where it
    was written as one that is skipped.
    """
    elapsed = duration.ms * times
    if times == 0 or not (duration.months or duration.days):
        return _within(moment + elapsed)
    local = shift_local(zone.to_local(moment) if local is None else local, duration, times)
    if local is None:
        return None
    return _within(settle(local, zone) + elapsed)


def shift_local(local: int, duration: Duration, times: int) -> int | None:
    """Local ms plus months, clamped to the month's end, plus days; None: after the year 9999."""
    months, days = duration.months * times, duration.days * times
    day, time_of_day = divmod(local, DAY)
    date = as_datetime(day * DAY)
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    if year > 9_999 or days > DAYS_MAX:
        return None
    first = as_moment(datetime(year, month + 1, 1, tzinfo=UTC))
    shifted = first + (min(date.day, month_length(year, month + 1)) - 1 + days) * DAY + time_of_day
    return shifted if shifted <= LATEST else None


def settle(local: int, zone: Zone) -> int:
    """The instant of a local time: the first where it occurs twice, the gap's end where it is skipped."""
    instants = zone.instants(local)
    return instants[0] if instants else zone.after_gap(local)


def mean_length(duration: Duration) -> int:
    """Its approximate length in ms, with the mean Gregorian month."""
    return duration.months * 2_629_746_000 + duration.days * DAY + duration.ms


def amounts(duration: Duration) -> list[tuple[int, str]]:
    """The duration as counts of units from year to millisecond, the largest first, none of them 0."""
    years, months = divmod(duration.months, 12)
    weeks, days = divmod(duration.days, 7) if duration.days % 7 == 0 else (0, duration.days)
    rest = duration.ms
    parts = [(years, "year"), (months, "month"), (weeks, "week"), (days, "day")]
    for size, name in ((3_600_000, "hour"), (60_000, "minute"), (1_000, "second"), (1, "millisecond")):
        count, rest = divmod(rest, size)
        parts.append((count, name))
    return [(count, name) for count, name in parts if count]


def advise_unit(text: str) -> str:
    """What to write for a number with another unit, or with none; empty: no suggestion."""
    if (rate := _RATE.fullmatch(text)) is not None:
        return advise_unit(rate[1])
    if _EPOCH_TEXT.fullmatch(text):
        return advise_epoch(text)
    found = _SPOKEN.fullmatch(text)
    if found is None:
        return _advise_spelling(text)
    number, word = found[1], found[2].lower()
    if not word:
        return f"name the unit: {number}s, {number}m, {number}h or {number}d"
    if found[2] == "M":
        return f"write '{number}m' for minutes, 'P{number}M' for months"
    written = _write_spoken(number, word)
    return f"write {written!r}" if written else _advise_spelling(text)


def _write_spoken(number: str, word: str) -> str:
    """`5m` for 5 minutes; empty where the word is no unit."""
    return next((form for words, form in _WORDS if word in words), "").format(number)


def advise_epoch(text: str) -> str:
    """How to write a number of 10 or 13 digits as a moment: it counts seconds or milliseconds since 1970."""
    whole = text.partition(".")[0]
    unit, size = ("milliseconds", 1) if len(whole) > 10 else ("seconds", 1_000)
    moment = as_datetime(int(whole) * size).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"as {unit} since 1970 it is {moment!r}: moments are written so (RFC 3339)"


def _advise_spelling(text: str) -> str:
    """A suggestion for signs, blanks and capitals, which the grammar refuses."""
    if text.startswith("-"):
        return "a duration is never negative"
    plain = "".join(text.split()).lower()
    if plain != text and _PARTS.fullmatch(plain):
        return f"write {plain!r}"
    with_points = COMMA.sub(".", plain).replace(",", "")
    if with_points != plain and _PARTS.fullmatch(with_points):
        return f"write {with_points!r}"
    spoken = _SPOKEN_PARTS.findall(text) if _SPOKEN_TEXT.fullmatch(text) else []
    parts = [_write_spoken(number, word.lower()) for number, word in spoken]
    if parts and _PARTS.fullmatch("".join(parts)):
        return f"write {''.join(parts)!r}"
    iso = "".join(text.split()).upper()
    return f"write {iso!r}" if iso != text and _ISO.fullmatch(iso) else ""


def _read_units(text: str) -> Duration:
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ExpressionError(
            f"{text!r} is not a duration; write it like 2h30m, 1d2h0m2s, 500ms, PT2H30M or P1DT1H20M10S",
            advice=advise_unit(text),
        )
    total = sum(_nanoseconds(part[1], part[2]) for part in _EACH.finditer(match[1]))
    if total > NANOSECONDS_MAX:
        raise ExpressionError(f"{text!r} is too long; give at most 292 years")
    return Duration(ms=_to_ms(total))


def _nanoseconds(number: str, unit: str) -> int:
    whole, _, fraction = number.partition(".")
    size = _NANOSECONDS[unit]
    parts: int = 10 ** len(fraction)
    return int(whole or "0") * size + -(-int(fraction or "0") * size // parts)


def _to_ms(nanoseconds: int) -> int:
    if nanoseconds == 0:
        return 0
    return max(1, (nanoseconds + 500_000) // 1_000_000)


def _read_iso(text: str) -> Duration:
    match = _ISO.fullmatch(text)
    if match is None:
        raise ExpressionError(
            f"{text!r} is not an ISO 8601 duration; write it like PT2H30M, P1DT1H20M10S, P2W or P1Y6M",
            advice=_advise_iso(text),
        )
    years, months, weeks, days, hours, minutes, seconds = (int(group or "0") for group in match.groups()[:7])
    clock = _nanoseconds(f"{seconds}.{match[8] or ''}", "s")
    duration = Duration(
        months=years * 12 + months,
        days=weeks * 7 + days,
        ms=hours * 3_600_000 + minutes * 60_000 + _to_ms(clock),
    )
    if duration.months > MONTHS_MAX or duration.days > DAYS_MAX or duration.ms > MS_MAX:
        raise ExpressionError(f"{text!r} is too long; give at most 9999 years")
    return duration


def _advise_iso(text: str) -> str:
    """A suggestion for hours and seconds without the T, and for decimals of hours and minutes."""
    found = _LOOSE_ISO.fullmatch(text)
    if found is None or not any(found.groups()):
        return ""
    parts = zip(found.groups()[1:], "hms", strict=True)
    total = sum(_nanoseconds(number.replace(",", "."), unit) for number, unit in parts if number)
    minutes, rest = divmod(total // 1_000_000, 60_000)
    seconds = f"{rest / 1_000:g}"
    named = ((minutes // 60, "H"), (minutes % 60, "M"), (seconds, "S"))
    clock = "".join(f"{number}{unit}" for number, unit in named if number not in (0, "0"))
    days = f"{found[1]}D" if found[1] else ""
    reason = "hours, minutes and seconds stand behind T" if "T" not in text else "only seconds have decimals"
    written = f"P{days}T{clock}"
    return f"{reason}: write {written!r}" if clock else ""


def _within(moment: int) -> int | None:
    return moment if moment <= LATEST else None
