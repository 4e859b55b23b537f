"""Calendars of working days, and the moments of a timer on them (SPEC section 3, Calendars).

Days are counted from 1970-01-01, which is 0. All of it is pure: the days of a calendar are a value.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Protocol

import msgspec

from scheduler_service.domain.errors import ExpressionError, Problem
from scheduler_service.domain.moments import DAY
from scheduler_service.timing.durations import settle
from scheduler_service.timing.zones import Zone

WORK, FREE = "work", "free"
SKIP, NEXT, PREVIOUS = "skip", "next", "previous"
FARTHEST_DAYS = 366
"""A moment moves over so many days at most; one that would move farther is none."""
MOST_STEPS = 500
"""So many moments on other days are passed over in search of the next one; beyond it there is none."""
MOST_A_DAY = 24
"""A timer whose moments move has so many in a day at most: those of several days meet on one."""
LAST_DAY = 84_006
"""2199-12-31, the last day that a calendar knows."""
_THURSDAY = 3
_BY_WEEK = 2


class DaySpan(msgspec.Struct, frozen=True, gc=False):
    """Days from `first` to `last`, both included."""

    first: int
    last: int


class Calendar(msgspec.Struct, frozen=True):
    """Which days are working days, under a name and a version; it took effect at `changed_at` (wall ms).

    Bit 0 of `week` is Monday. From the day `starts[i]` on, until `starts[i + 1]`, days are what `kinds[i]`
    says: 1 working days, 0 free ones, 2 as `week` has them. `zone` None: that of the timer.
    """

    name: str
    version: int
    changed_at: int
    week: int
    starts: tuple[int, ...]
    kinds: tuple[int, ...]
    zone: Zone | None = None

    def is_work(self, day: int) -> bool:
        """Whether it is a working day."""
        kind = self.kinds[bisect_right(self.starts, day) - 1]
        return self._is_in_week(day) if kind == _BY_WEEK else bool(kind)

    def is_usual(self, day: int) -> bool:
        """Whether it is what its weekday says."""
        return self.is_work(day) is self._is_in_week(day)

    def find(self, day: int, days: str, *, step: int, last: int) -> int | None:
        """The first day of this kind from `day` on, in steps of 1 or -1, no farther than `last`; or None."""
        wanted = days == WORK
        while (last - day) * step >= 0:
            index = bisect_right(self.starts, day) - 1
            edge = self._edge(index, step)
            if self.kinds[index] == _BY_WEEK:
                end = day + 6 * step  # in a week each weekday comes once
                for one in range(day, (min(end, edge) if step > 0 else max(end, edge)) + step, step):
                    if self._is_in_week(one) is wanted:
                        return one if (last - one) * step >= 0 else None
            elif bool(self.kinds[index]) is wanted:
                return day
            day = edge + step
        return None

    def _edge(self, index: int, step: int) -> int:
        """The last day of a stretch, in this direction."""
        if step < 0:
            return self.starts[index]
        return self.starts[index + 1] - 1 if index + 1 < len(self.starts) else LAST_DAY

    def _is_in_week(self, day: int) -> bool:
        return bool(self.week >> ((day + _THURSDAY) % 7) & 1)


def make_calendar(
    name: str,
    *,
    version: int,
    changed_at: int,
    week: int,
    layers: Iterable[tuple[str, Iterable[DaySpan]]],
    zone: Zone | None,
) -> Calendar:
    """The calendar with these layers of spans of `WORK` and `FREE` days, of which a later one wins."""
    known: dict[int, int] = {}
    for kind, spans in layers:
        for span in spans:
            known.update(dict.fromkeys(range(span.first, span.last + 1), int(kind == WORK)))
    starts, kinds, ended = [-LAST_DAY], [_BY_WEEK], 0
    for day, value in sorted(known.items()):
        if day - 1 not in known and kinds[-1] != _BY_WEEK:
            _begin(starts, kinds, ended + 1, _BY_WEEK)
        if kinds[-1] != value:
            _begin(starts, kinds, day, value)
        ended = day
    if known:
        _begin(starts, kinds, ended + 1, _BY_WEEK)
    return Calendar(name, version, changed_at, week, tuple(starts), tuple(kinds), zone)


def _begin(starts: list[int], kinds: list[int], day: int, kind: int) -> None:
    starts.append(day)
    kinds.append(kind)


class DayRule(msgspec.Struct, frozen=True):
    """On which days of a calendar a timer fires, and what becomes of its other moments.

    `calendar` None: there is none of this name. `zone`: the one whose days count.
    """

    name: str
    days: str = WORK
    otherwise: str = SKIP
    calendar: Calendar | None = None
    zone: Zone | None = None

    def keeps(self, start: int, end: int) -> bool:
        """Whether all moments between these stay what they are where the first one does."""
        zone = self.zone
        if self.otherwise != SKIP or zone is None:
            return False
        return zone.to_local(start) // DAY == zone.to_local(end) // DAY

    @property
    def version(self) -> int:
        """That of the calendar; 0: there is none."""
        return 0 if self.calendar is None else self.calendar.version


class Grid(Protocol):
    """The moments of a timer before a calendar has been applied to them, without bounds."""

    def next(self, after: int) -> int | None:
        """The first one later than `after`."""

    def previous(self, before: int) -> int | None:
        """The last one earlier than `before`."""

    def delays(self, moment: int) -> Iterable[int]:
        """By how much (ms) one is later than the local times for which it stands: above 0 behind a gap."""


class DaysOf:
    """The moments of `grid` on the days of `rule`, whose calendar is known; `clock` is the timer's zone."""

    def __init__(self, rule: DayRule, grid: Grid, clock: Zone) -> None:
        assert rule.calendar is not None, "an unbound rule has no days"
        assert rule.zone is not None, "a bound rule has a zone"
        self._calendar, self._zone, self._grid = rule.calendar, rule.zone, grid
        self._clock = clock
        self._days, self._otherwise = rule.days, rule.otherwise
        self._seen: tuple[int, list[int]] | None = None

    def next(self, after: int) -> int | None:
        """The first moment later than `after`, or None."""
        if self._otherwise == SKIP:
            return self._walk(self._grid.next(after), 1)
        return self._moved(after, 1, lambda found: next((one for one in found if one > after), None))

    def previous(self, before: int) -> int | None:
        """The last moment earlier than `before`, or None."""
        if self._otherwise == SKIP:
            return self._walk(self._grid.previous(before), -1)
        return self._moved(
            before - 1, -1, lambda found: next((one for one in reversed(found) if one < before), None)
        )

    def _walk(self, moment: int | None, step: int) -> int | None:
        """`moment`, if its day is one of the rule; else the first one behind it, in this direction."""
        for _ in range(MOST_STEPS):
            if moment is None:
                return None
            day = self._day(moment)
            if self._is_right(day):
                return moment
            found = self._find(day + step, step)
            if found is None:
                return None
            moment = (
                self._grid.next(self._start(found) - 1)
                if step > 0
                else self._grid.previous(self._start(found + 1))
            )
        return None

    def _moved(self, moment: int, step: int, choose: Callable[[list[int]], int | None]) -> int | None:
        """What `choose` finds on the day of `moment`, or on the first day behind it that has any."""
        day: int | None = self._day(moment)
        for _ in range(MOST_STEPS):
            if day is None:
                return None
            if self._is_right(day):
                found = choose(self._on(day))
                if found is not None:
                    return found
            day = self._day_behind(day, step)
        return None

    def _day_behind(self, day: int, step: int) -> int | None:
        """The next day, in this direction, to which a moment belongs."""
        beyond = self._find(day + step, step)
        if beyond is None:
            return None
        # The first day, in this direction, whose moments may belong to `beyond` or to a day behind it.
        nearest = beyond
        if (step > 0) is (self._otherwise == NEXT):
            behind = day if self._is_right(day) else self._find(day, -step)
            nearest = (day - step * FARTHEST_DAYS if behind is None else behind) + step
        start = self._start(nearest if step > 0 else nearest + 1)
        moment = self._grid.next(start - 1) if step > 0 else self._grid.previous(start)
        if moment is None:
            return None
        aim = self._aim(self._day(moment))
        return beyond if aim is None else aim  # none moves there: look on from it

    def _aim(self, day: int) -> int | None:
        """The day to which the moments of `day` belong."""
        step = 1 if self._otherwise == NEXT else -1
        return self._calendar.find(day, self._days, step=step, last=day + step * FARTHEST_DAYS)

    def _on(self, day: int) -> list[int]:
        """All moments that belong to a right day, in order, each once."""
        if self._seen is not None and self._seen[0] == day:
            return self._seen[1]
        step = -1 if self._otherwise == NEXT else 1
        other = self._find(day + step, step)
        farthest = day + step * FARTHEST_DAYS if other is None else other - step
        first, last = sorted((day, max(min(farthest, day + FARTHEST_DAYS), day - FARTHEST_DAYS)))
        found = {moved for moment in self._raw(first, last) for moved in self._move(moment, day)}
        self._seen = day, sorted(found)
        return self._seen[1]

    def _move(self, moment: int, day: int) -> Iterable[int]:
        """The same local time on `day`, also of one that was skipped; a moment of that day stays."""
        if self._day(moment) == day:
            return (moment,)
        return (self._at(moment, delay, day) for delay in self._grid.delays(moment))

    def _at(self, moment: int, delay: int, day: int) -> int:
        """The time of the timer's clocks at `moment`, less `delay`, on this day of the calendar."""
        local = self._clock.to_local(moment)
        aim = local // DAY + day - self._day(moment)
        # Clocks that change on different days shift it over midnight: then a neighbour is on that day.
        for one in (aim, aim - 1, aim + 1):
            moved = settle(one * DAY + (local - delay) % DAY, self._clock)
            if self._day(moved) == day:
                return moved
        return settle(day * DAY + (self._zone.to_local(moment) - delay) % DAY, self._zone)

    def _raw(self, first: int, last: int) -> Iterator[int]:
        """The moments of the grid on these days."""
        end = self._start(last + 1)
        moment = self._grid.next(self._start(first) - 1)
        while moment is not None and moment < end:
            yield moment
            moment = self._grid.next(moment)

    def _find(self, day: int, step: int) -> int | None:
        return self._calendar.find(day, self._days, step=step, last=LAST_DAY if step > 0 else 0)

    def _is_right(self, day: int) -> bool:
        return self._calendar.is_work(day) is (self._days == WORK)

    def _day(self, moment: int) -> int:
        return self._zone.to_local(moment) // DAY

    def _start(self, day: int) -> int:
        return self._zone.after_gap(day * DAY)


MOST_DAYS = 366
"""A range has so many days at most."""
_EPOCH = date(1970, 1, 1).toordinal()
_SPAN = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:/([0-9]{4}-[0-9]{2}-[0-9]{2}))?")


def read_span(text: str) -> DaySpan:
    """The days of `2026-10-01` or `2026-10-01/2026-10-07`. Raises ExpressionError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ExpressionError(f"{text[:80]!r} is no date; write 2026-10-01, or 2026-10-01/2026-10-07")
    first = _read_day(found[1])
    last = first if found[2] is None else _read_day(found[2])
    if last < first:
        raise ExpressionError(f"{text!r} ends before it begins; give the earlier day first")
    if last - first >= MOST_DAYS:
        raise ExpressionError(f"{text!r} has more than {MOST_DAYS} days; make several of it")
    return DaySpan(first, last)


def read_spans(texts: Iterable[str], pointer: str, problems: list[Problem]) -> list[DaySpan]:
    """All spans; what is wrong joins `problems`, each with its pointer below `pointer`."""
    found = []
    for index, text in enumerate(texts):
        try:
            found.append(read_span(text))
        except ExpressionError as error:
            problems.append(error.as_problem(f"{pointer}/{index}"))
    return found


def day_set(spans: Iterable[DaySpan]) -> set[int]:
    """All days of these spans."""
    return {day for span in spans for day in range(span.first, span.last + 1)}


def write_day(day: int) -> str:
    """The date of a day."""
    return date.fromordinal(day + _EPOCH).isoformat()


def day_of(found: date) -> int:
    """The day of a date."""
    return found.toordinal() - _EPOCH


def write_spans(days: Iterable[int]) -> Iterator[str]:
    """Days as dates and ranges, in order."""
    first: int | None = None
    last = 0
    for day in sorted(set(days)):
        if first is not None and day != last + 1:
            yield _write_span(first, last)
            first = None
        first, last = day if first is None else first, day
    if first is not None:
        yield _write_span(first, last)


def _write_span(first: int, last: int) -> str:
    return write_day(first) if first == last else f"{write_day(first)}/{write_day(last)}"


def _read_day(text: str) -> int:
    try:
        day = day_of(date.fromisoformat(text))
    except ValueError:
        raise ExpressionError(f"{text!r} is not in the calendar") from None
    if not 0 <= day <= LAST_DAY:
        raise ExpressionError(f"{text!r} is not within 1970 and 2199")
    return day
