"""Cron against every second of short spans around clock changes, and its order (SPEC section 3)."""

from datetime import datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.moments import DAY, EPOCH, HOUR, SECOND
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.zones import Zone, load_zone, zone_names

SPAN = 3 * HOUR
FAR = 46_000 * DAY
"""Towards the end of 2095; the firings of a day are looked for on both sides of it."""

CLOCK = st.sampled_from(["*", "*/7", "*/20", "0", "30", "5,35", "10-50", "0-59/13", "59"])
HOURS = st.sampled_from(["*", "*/2", "1-3/2", "0", "1", "2", "3", "1,2", "0-4", "23,0"])
ZONES = st.sampled_from(sorted(zone_names())).map(load_zone)


@st.composite
def places(draw: st.DrawFn) -> tuple[Zone, int]:
    """A zone of the database and a moment at which its clocks change, if they ever do."""
    zone = draw(ZONES)
    return zone, draw(st.sampled_from([at for at in zone.starts if 0 < at < FAR] or [50 * DAY]))


def values(text: str, high: int) -> frozenset[int]:
    """The numbers of a field, by the plain meaning of its signs."""
    found: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        first, _, last = body.partition("-")
        low, end = (0, high) if body == "*" else (int(first), int(last or first))
        found |= set(range(low, end + 1, int(step or 1)))
    return frozenset(found)


class Watcher:
    """Looks at the clock of a zone every second, as `zoneinfo` shows it."""

    def __init__(self, expression: str, zone: Zone) -> None:
        second, minute, hour = expression.split()[:3]
        self._fields = (values(hour, 23), values(minute, 59), values(second, 59))
        self._recurs = any("*" in field or "/" in field for field in (second, minute)) or (
            hour == "*" or "/" in hour
        )
        with files("tzdata").joinpath("zoneinfo", *zone.name.split("/")).open("rb") as data:
            self._info = ZoneInfo.from_file(data)

    def firings(self, begin: int, end: int) -> list[int]:
        """What fires from `begin` to `end`, both included, in the words of SPEC section 3."""
        found: set[int] = set()
        shown = self._shown(begin - SECOND)
        reached = self._reached(begin)
        for moment in range(begin, end + 1, SECOND):
            before, shown = shown, self._shown(moment)
            skipped = [reached + timedelta(seconds=one) for one in range(1, _seconds(shown, reached))]
            if any(self._fits(one) for one in skipped) and shown - before != timedelta(seconds=1):
                found.add(moment)
            if self._fits(shown) and (self._recurs or shown > reached):
                found.add(moment)
            reached = max(reached, shown)
        return sorted(found)

    def _reached(self, begin: int) -> datetime:
        """The latest time that clocks have shown before `begin`; they seldom went back just before it."""
        last = begin - SECOND
        if (
            len(
                {
                    self._shown(at) - timedelta(milliseconds=at)
                    for at in range(last - 4 * HOUR, last, HOUR // 4)
                }
            )
            == 1
        ):
            return self._shown(last)
        return max(self._shown(at) for at in range(last - 4 * HOUR, begin, SECOND))

    def _shown(self, moment: int) -> datetime:
        return (EPOCH + timedelta(milliseconds=moment)).astimezone(self._info).replace(tzinfo=None)

    def _fits(self, shown: datetime) -> bool:
        hours, minutes, seconds = self._fields
        return shown.hour in hours and shown.minute in minutes and shown.second in seconds


def _seconds(later: datetime, earlier: datetime) -> int:
    return max(0, int((later - earlier).total_seconds()))


def walk(cron: Cron, begin: int, end: int, zone: Zone) -> list[int]:
    found, moment = [], begin - 1
    while (following := cron.next(moment, zone)) is not None and following <= end:
        found.append(following)
        moment = following
    return found


@settings(deadline=None, max_examples=15)
@given(st.tuples(CLOCK, CLOCK, HOURS).map(lambda fields: f"{' '.join(fields)} * * ?"), places())
def test_every_second_around_a_clock_change_is_as_the_specification_says(
    expression: str, place: tuple[Zone, int]
) -> None:
    """In every zone of the database: skipped times, repeated times, and all that lies beside them."""
    zone, change = place
    begin, end = change - SPAN, change + SPAN
    seen = Watcher(expression, zone).firings(begin, end)
    assert walk(parse_cron(expression), begin, end, zone) == seen


@given(
    st.tuples(CLOCK, CLOCK, HOURS).map(lambda fields: f"{' '.join(fields)} * * ?"),
    places(),
    st.lists(st.integers(-2 * DAY, 2 * DAY), min_size=2, max_size=2).map(sorted),
)
def test_a_later_moment_never_has_an_earlier_next_or_previous(
    expression: str, place: tuple[Zone, int], apart: list[int]
) -> None:
    """Monotony, there and back, and strictness."""
    (zone, change), cron = place, parse_cron(expression)
    first, second = (change + each for each in apart)
    nexts = [cron.next(moment, zone) or FAR * 2 for moment in (first, second)]
    previous = [cron.previous(moment, zone) or 0 for moment in (first, second)]
    assert nexts == sorted(nexts)
    assert previous == sorted(previous)
    assert previous[0] < first < nexts[0]
