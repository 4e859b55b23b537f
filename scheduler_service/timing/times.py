"""Parses moments: a date with a time of day, local or with an offset."""

import re
from datetime import UTC, datetime

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import MINUTE, SECOND, as_datetime, as_moment
from scheduler_service.timing.durations import advise_unit, settle
from scheduler_service.timing.zones import Zone, load_zone

EARLIEST = as_moment(datetime(1, 1, 3, tzinfo=UTC))  # local times of all zones still fit into a date
END = as_moment(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)) + 999

FORMS = "2023-10-01 09:00:01 or 2023-10-01T09:00:01+08:00"
_LOCAL = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2}) ([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,30}))?"
)
_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,30}))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_LENIENT = re.compile(
    r"((?:19|20|21)[0-9]{2})([-/.]?)([0-9]{1,2})\2([0-9]{1,2})"
    r"(?:[T ,]+([0-9]{1,2}):?([0-9]{2})(?::?([0-9]{2})(?:\.[0-9]+)?)?)? ?(Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})?",
    re.IGNORECASE,
)
_LONGEST_ADVISED = 60
_AT_ONCE = frozenset({"now", "now()", "immediately", "immediate", "asap", "at once"})
_AT = re.compile(r"^at\((.*)\)$", re.IGNORECASE)
_IN = re.compile(r"(?:in|after) +(.+)", re.IGNORECASE)
_LOOKS_LIKE_A_TIME = re.compile(r"[0-9]+-[0-9]")


def parse_time(text: str, zone: Zone) -> int:
    """The moment (ms since the epoch) in `text` (SPEC section 3). Raises ExpressionError.

    `2023-10-01 09:00:01` and `2023-10-1 9:00:01` are local to `zone`, as is RFC 3339 without an offset;
    with an offset (`Z`, `+08:00`) the zone is not used. Decimals beyond milliseconds are cut off. A skipped
    local time means the first instant after the gap, one that occurs twice its first occurrence. Second 60,
    hour 24 and any text after the time are refused.
    """
    return read_time(text, zone)[0]


def read_time(text: str, zone: Zone) -> tuple[int, int]:
    """The moment as `parse_time` has it, and its local time (ms) as written: perhaps one that is skipped."""
    match = _RFC_3339.fullmatch(text) or _LOCAL.fullmatch(text)
    if match is None:
        raise ExpressionError(
            f"{text[:80]!r} is not a time; write it like {FORMS}", advice=advise_moment(text)
        )
    local = _read_clock(match, text)
    offset = match[8] if match.re is _RFC_3339 else None
    if offset is None:
        return _checked(settle(local, zone), text), local
    moment = _checked(local - _read_offset(offset, text), text)
    return moment, zone.to_local(moment)


def advise_moment(text: str) -> str:
    """A tested suggestion for a text that is no moment as `parse_time` reads it, or an empty text."""
    if len(text) > _LONGEST_ADVISED:
        return ""
    plain = _AT.sub(r"\1", " ".join(text.split()))
    if (epoch := advise_unit(plain)).startswith("as "):
        return epoch
    found = _LENIENT.fullmatch(plain)
    return "" if found is None else _respell(found)


def advise_delay(text: str) -> str:
    """As `advise_moment`, where a delay may be given too."""
    plain = " ".join(text[:_LONGEST_ADVISED].split())
    if plain.lower() in _AT_ONCE:
        return "for at once write '0s'"
    after = _IN.fullmatch(plain)
    return advise_unit(after[1]) if after else advise_moment(text)


def _respell(found: re.Match[str]) -> str:
    year, _, month, day, hour, minute, second, offset = found.groups()
    clock = f"{year}-{month:0>2}-{day:0>2} {hour or '00':0>2}:{minute or '00'}:{second or '00'}"
    if offset:
        zone = "Z" if offset[0].isalpha() else f"{offset[:3]}:{offset[-2:]}"
        clock = clock.replace(" ", "T") + zone
    try:
        parse_time(clock, load_zone("UTC"))
    except ExpressionError:
        return ""
    return f"write {clock!r}"


def looks_like_time(text: str) -> bool:
    """Whether `text` begins like a date, for the choice of an error message."""
    return _LOOKS_LIKE_A_TIME.match(text) is not None


def local_text(moment: int, zone: Zone) -> str:
    """The local time of `moment` with its offset, as in `2023-10-01T09:00:01.000+08:00`."""
    local = zone.to_local(moment)
    minutes = abs(local - moment) // MINUTE
    sign = "-" if local < moment else "+"
    clock = as_datetime(local).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{clock}.{local % SECOND:03d}{sign}{minutes // 60:02d}:{minutes % 60:02d}"


def _read_clock(match: re.Match[str], text: str) -> int:
    """The date and time as ms, as if they were UTC."""
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    try:
        whole = as_moment(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
    except ValueError as error:
        raise ExpressionError(f"{text[:80]!r} is not in the calendar: {error}") from None
    return whole + int((match[7] or "0").ljust(3, "0")[:3])


def _read_offset(offset: str, text: str) -> int:
    if offset in "Zz":
        return 0
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if hours > 23 or minutes > 59:
        raise ExpressionError(f"the offset {offset} of {text[:80]!r} is not valid; give -23:59 to +23:59")
    shift = (hours * 60 + minutes) * MINUTE
    return -shift if offset[0] == "-" else shift


def _checked(moment: int, text: str) -> int:
    if not EARLIEST <= moment <= END:
        raise ExpressionError(f"{text[:80]!r} is not within 0001-01-03 and 9999-12-31; give another")
    return moment
