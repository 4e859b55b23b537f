"""Time zones, read from the `tzdata` package and never from the machine."""

import hashlib
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import date, timedelta
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from itertools import accumulate, pairwise
from zoneinfo import ZoneInfo

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import DAY, EPOCH, SECOND

DAWN = -(10**17)
"""Where the first stretch of every zone begins (ms), before all moments."""

LAST_YEAR = 2200
"""Changes are computed to the end of this year; later moments keep its last offset."""

WRONG_NAMES = {
    **dict.fromkeys(
        ("beijing", "peking", "china", "shenzhen", "guangzhou", "hangzhou", "chengdu"), "Asia/Shanghai"
    ),
    **dict.fromkeys(("mumbai", "delhi", "new_delhi", "bangalore", "chennai"), "Asia/Kolkata"),
    **dict.fromkeys(("osaka",), "Asia/Tokyo"),
    **dict.fromkeys(("san_francisco", "seattle"), "America/Los_Angeles"),
    **dict.fromkeys(("boston", "washington", "miami"), "America/New_York"),
}
"""Cities that are no zone, by their name in small letters, with the zone in which they lie."""

ABBREVIATIONS = {
    "acst": ("Australia/Adelaide", "Australia/Darwin"),
    "aest": ("Australia/Sydney", "Australia/Brisbane"),
    "akst": ("America/Anchorage",),
    "ast": ("America/Halifax", "America/Puerto_Rico", "Asia/Riyadh"),
    "at": ("America/Halifax",),
    "awst": ("Australia/Perth",),
    "brt": ("America/Sao_Paulo",),
    "bst": ("Europe/London", "Asia/Dhaka"),
    "cat": ("Africa/Maputo",),
    "cest": ("Europe/Paris", "Europe/Berlin"),
    "cst": ("America/Chicago", "Asia/Shanghai", "America/Havana"),
    "ct": ("America/Chicago",),
    "eat": ("Africa/Nairobi",),
    "eest": ("Europe/Athens", "Africa/Cairo"),
    "est": ("America/New_York", "America/Panama"),
    "et": ("America/New_York",),
    "gst": ("Asia/Dubai", "Atlantic/South_Georgia"),
    "hkt": ("Asia/Hong_Kong",),
    "hst": ("Pacific/Honolulu",),
    "ict": ("Asia/Bangkok", "Asia/Ho_Chi_Minh"),
    "ist": ("Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"),
    "jst": ("Asia/Tokyo",),
    "kst": ("Asia/Seoul",),
    "msk": ("Europe/Moscow",),
    "mst": ("America/Denver", "America/Phoenix", "Asia/Kuala_Lumpur"),
    "mt": ("America/Denver",),
    "nst": ("America/St_Johns",),
    "nzst": ("Pacific/Auckland",),
    "pht": ("Asia/Manila",),
    "pkt": ("Asia/Karachi",),
    "pst": ("America/Los_Angeles", "Asia/Manila"),
    "pt": ("America/Los_Angeles",),
    "sast": ("Africa/Johannesburg",),
    "sgt": ("Asia/Singapore",),
    "sst": ("Asia/Singapore", "Pacific/Pago_Pago"),
    "trt": ("Europe/Istanbul",),
    "wast": ("Africa/Lagos",),
    "wat": ("Africa/Lagos",),
    "west": ("Europe/Lisbon",),
    "wib": ("Asia/Jakarta",),
}
"""Abbreviations that are no zone, with the zones that people mean by them."""

_WINDOWS_NAME = re.compile(r"(.+?)(?: \(.*\))? (?:standard|daylight|summer) time", re.IGNORECASE)
_WINDOWS = {
    "china": "Asia/Shanghai",
    "eastern": "America/New_York",
    "central": "America/Chicago",
    "mountain": "America/Denver",
    "pacific": "America/Los_Angeles",
    "gmt": "Europe/London",
    "tokyo": "Asia/Tokyo",
    "india": "Asia/Kolkata",
    "w. europe": "Europe/Berlin",
    "central europe": "Europe/Budapest",
    "central european": "Europe/Warsaw",
    "romance": "Europe/Paris",
    "russian": "Europe/Moscow",
    "korea": "Asia/Seoul",
    "singapore": "Asia/Singapore",
    "aus eastern": "Australia/Sydney",
}
_ABBREVIATION = re.compile(r"([A-Z]{2,4})(?:-?[0-9]{1,2}(?:[A-Z]{3,4})?)?", re.IGNORECASE)
_OFFSET = re.compile(r"(?:(?:Etc/)?(?:GMT|UTC|Z)\s*([+-]?)|([+-]))\s*(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
_EPOCH_DAY = EPOCH.toordinal()
_TZIF_HEADER = struct.Struct(">4s16x6l")
_OLDEST = -200 * 365 * DAY
_WIDEST = 2 * DAY


class Zone(msgspec.Struct, frozen=True, eq=False):
    """A zone as stretches of constant offset; all numbers are milliseconds.

    Stretch `i` lasts from `starts[i]` to `starts[i + 1]` at UTC plus `offsets[i]`. `reached[i]` is the latest
    local time before it: local times from `reached[i]` to the first one of the stretch are a gap; if the
    stretch begins before `reached[i]`, local times occur twice. One object per name: identity is equality.
    """

    name: str
    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    reached: tuple[int, ...]

    def stretch(self, moment: int) -> int:
        """The index of the stretch of `moment`."""
        return bisect_right(self.starts, moment) - 1 if moment >= DAWN else 0

    def to_local(self, moment: int) -> int:
        """The local time at `moment`: ms since 1970, counted as if it were UTC."""
        return moment + self.offsets[self.stretch(moment)]

    def instants(self, local: int) -> tuple[int, ...]:
        """The moments with the local time `local`, ascending: none in a gap, two in an overlap, else one."""
        found = (local - self.offsets[index] for index in self._near(local))
        return tuple(moment for moment in found if moment + self.offsets[self.stretch(moment)] == local)

    def after_gap(self, local: int) -> int:
        """The first instant after the gap of `local`; outside a gap the first occurrence of `local`."""
        for index in self._near(local):
            start, offset = self.starts[index], self.offsets[index]
            if self.reached[index] <= local < start + offset:
                return start
        return self.instants(local)[0]

    def skipped(self, moment: int) -> range:
        """The local times that clocks skip at `moment`; empty: none."""
        index = self.stretch(moment)
        is_change = moment == self.starts[index]
        return range(self.reached[index], moment + self.offsets[index]) if is_change else range(0)

    def _near(self, local: int) -> range:
        return range(self.stretch(local - _WIDEST), self.stretch(local + _WIDEST) + 1)


@cache
def load_zone(name: str) -> Zone:
    """The zone with exactly this IANA name.

    Raises ExpressionError (`unknown_zone`) for any other text.
    """
    if name not in zone_names():
        raise ExpressionError(f"time zone {name[:64]!r} is unknown; {_remedy(name)}", code="unknown_zone")
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    info = ZoneInfo.from_file(BytesIO(data), key=name)
    starts, offsets = _stretches(info, [DAWN, *_changes(info, data)])
    ends = [DAWN, *(start + offset for start, offset in zip(starts[1:], offsets, strict=False))]
    return Zone(name=name, starts=starts, offsets=offsets, reached=tuple(accumulate(ends, max)))


@cache
def digest_zones(package: Traversable | None = None) -> str:
    """A digest of the rules of all zones in `package` (`tzdata`), which may change without its version.

    It is read once in a process, as each zone is.
    """
    folder = files("tzdata") if package is None else package
    names = folder.joinpath("zones").read_bytes()
    digest = hashlib.blake2b(names, digest_size=12)
    for name in names.decode().split():
        digest.update(folder.joinpath("zoneinfo", *name.split("/")).read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every IANA name that `load_zone` accepts."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


def step_of_day(zone: Zone, moment: int) -> int | None:
    """By how much clocks change on the local day of `moment` (ms, forward above 0); None: they do not."""
    day = zone.to_local(moment) // DAY
    for index in range(max(1, zone.stretch(moment - _WIDEST)), zone.stretch(moment + _WIDEST) + 1):
        start, step = zone.starts[index], zone.offsets[index] - zone.offsets[index - 1]
        # The gap or the repeated hour: a change at midnight does not count for the day that it ends.
        before, behind = start + zone.offsets[index - 1], start + zone.offsets[index]
        if min(before, behind) // DAY <= day <= (behind if step > 0 else before - 1) // DAY:
            return step
    return None


def _remedy(name: str) -> str:
    offset = _OFFSET.fullmatch(name[:64].strip())
    if offset is not None:
        return _remedy_of_offset(offset[1] or offset[2] or "+", int(offset[3]), int(offset[4] or 0))
    if name.strip().lower() == "z":
        return "Z means UTC: write 'UTC'"
    short = _remedy_of_abbreviation(name[:64].strip())
    if short:
        return short
    city = WRONG_NAMES.get(name[:64].lower().rpartition("/")[2].replace(" ", "_"))
    if city is not None:
        return f"did you mean {city!r}?"
    # The place alone, or the whole name; the region is a part that names of any other place have, too.
    folded = {
        part.lower(): known for known in sorted(zone_names()) for part in (known.rpartition("/")[2], known)
    }
    close = get_close_matches(name[:64].lower(), folded, n=1, cutoff=0.8)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    return "give an IANA name such as 'Asia/Shanghai' or 'UTC'"


def _remedy_of_abbreviation(name: str) -> str:
    """IANA names for an abbreviation, also for one as in POSIX (`EST5EDT4`); empty: it is none of these."""
    found = _ABBREVIATION.fullmatch(name)
    letters = found[1].lower() if found else ""
    # Daylight time is the zone of its standard time: PDT that of PST.
    zones = ABBREVIATIONS.get(letters) or ABBREVIATIONS.get(re.sub("dt$", "st", letters))
    if zones is None:
        windows = _WINDOWS_NAME.fullmatch(name)
        zone = windows and _WINDOWS.get(windows[1].lower())
        remedy = f"did you mean {zone!r}?" if zone else "give one, such as 'Asia/Shanghai' or 'UTC'"
        return f"it is no IANA name; {remedy}" if windows else ""
    if len(zones) == 1:
        return f"an abbreviation is not an IANA name; give {zones[0]!r}"
    listed = f"{', '.join(map(repr, zones[:-1]))} or {zones[-1]!r}"
    return f"the abbreviation is ambiguous; give an IANA name, such as {listed}"


def _remedy_of_offset(sign: str, hours: int, minutes: int) -> str:
    """Names of offsets count westwards: Etc/GMT-8 is eight hours ahead of UTC."""
    inverse = f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
    if minutes or (hours and inverse not in zone_names()):
        return "an offset is not a zone; give the IANA name of a place in it, or 'UTC'"
    if not hours:
        return "did you mean 'UTC'?"
    place = "'Asia/Shanghai'" if (sign, hours) == ("+", 8) else "the IANA name of a place in it"
    return f"an offset is not a zone; give {place}, or {inverse!r}, whose sign is reversed"


def _stretches(info: ZoneInfo, starts: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The starts at which the offset changes, with the offsets."""
    kept: list[tuple[int, int]] = []
    for start in starts:
        offset = _offset(info, max(start, _OLDEST))
        if not kept or kept[-1][1] != offset:
            kept.append((start, offset))
    return tuple(start for start, _ in kept), tuple(offset for _, offset in kept)


def _changes(info: ZoneInfo, data: bytes) -> Iterator[int]:
    """All moments of change, ascending: those listed, then those of the rule without end."""
    listed = _listed_changes(data)
    yield from listed
    last = listed[-1] if listed else 0
    ended = (EPOCH + timedelta(milliseconds=last)).year
    yield from (_new_year(ended) + into for into in _rule(info, ended) if _new_year(ended) + into > last)
    rules: dict[tuple[int, int], tuple[int, ...]] = {}
    for year in range(ended + 1, LAST_YEAR + 1):
        # Years with the same first weekday and length have equal changes.
        kind = (date(year, 1, 1).weekday(), date(year, 12, 31).timetuple().tm_yday)
        if kind not in rules:
            rules[kind] = _rule(info, year)
        yield from (_new_year(year) + into for into in rules[kind])


def _listed_changes(data: bytes) -> list[int]:
    """The moments in the 64-bit block of a TZif file (RFC 8536 section 3), in ms."""
    counts = _TZIF_HEADER.unpack_from(data)[1:]
    isut, isstd, leap, time, kind, char = counts
    second = _TZIF_HEADER.size + 5 * time + 6 * kind + char + 8 * leap + isstd + isut
    total = _TZIF_HEADER.unpack_from(data, second)[4]
    seconds = struct.unpack_from(f">{total}q", data, second + _TZIF_HEADER.size)
    return [at * SECOND for at in seconds if at * SECOND > _OLDEST]


def _rule(info: ZoneInfo, year: int) -> tuple[int, ...]:
    """When clocks change in `year`, in ms since it began: searched by weeks, then to the second."""
    start, end = _new_year(year), _new_year(year + 1)
    probes = [*range(start, end, 7 * DAY), end - SECOND]
    found = []
    for low, high in pairwise(probes):
        if _offset(info, high) != _offset(info, low):
            found.append(_first_changed(info, low // SECOND, high // SECOND) * SECOND - start)
    return tuple(found)


def _first_changed(info: ZoneInfo, low: int, high: int) -> int:
    """The first second between `low` and `high` that has another offset than `low`."""
    before = _offset(info, low * SECOND)
    return low + bisect_left(range(low, high + 1), True, key=lambda at: _offset(info, at * SECOND) != before)


def _offset(info: ZoneInfo, moment: int) -> int:
    shown = (EPOCH + timedelta(milliseconds=moment)).astimezone(info).utcoffset()
    assert shown is not None
    return shown // timedelta(milliseconds=1)


def _new_year(year: int) -> int:
    return (date(year, 1, 1).toordinal() - _EPOCH_DAY) * DAY
