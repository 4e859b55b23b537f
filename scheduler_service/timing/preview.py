"""The preview of a timer: as text, its next firings, and how many over many days (SPEC section 3)."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY, HOUR, MINUTE
from scheduler_service.timing.chinese import Chinese
from scheduler_service.timing.durations import LATEST
from scheduler_service.timing.english import English
from scheduler_service.timing.schedule import begin, between, following, limit, preceding, tally
from scheduler_service.timing.timer import Timer, TimerKind
from scheduler_service.timing.times import local_text
from scheduler_service.timing.zones import Zone, step_of_day

COUNT_MAX = 1_000
LANGUAGES: Mapping[str, English] = {"en": English(), "zh": Chinese()}
"""By the tag of RFC 5646; the first one is that of a caller who prefers none of them."""


class Shown(msgspec.Struct, frozen=True):
    """One firing: `utc` in ms, `local` as text with its offset, `note` on a day on which clocks change."""

    utc: int
    local: str
    note: str | None = None


class Preview(msgspec.Struct, frozen=True):
    """The meaning of a timer. `dialect` and `normal_form`: only of cron."""

    kind: TimerKind
    dialect: str | None
    normal_form: str | None
    description: str
    firings: tuple[Shown, ...]


def preview(
    timer: Timer,
    *,
    anchor: int,
    count: int,
    until: int | None = None,
    seed: str = "",
    language: str = "en",
) -> Preview:
    """The timer as text, and its first `count` firings (at most 1,000), none after `until`.

    `anchor` is the moment of creation; cron does not fire at it. With a `seed` the firings have the jitter
    of that job, without one they have none. `language` is that of the words, one of
    `LANGUAGES`.
    """
    cron = timer.cron
    return Preview(
        kind=timer.kind,
        dialect=None if cron is None else str(cron.dialect),
        normal_form=None if cron is None else cron.normal_form,
        description=describe(timer, language),
        firings=show(timer, Cursor(anchor), count=count, until=until, seed=seed, language=language),
    )


def show(
    timer: Timer,
    cursor: Cursor,
    *,
    count: int,
    until: int | None = None,
    seed: str = "",
    language: str = "en",
) -> tuple[Shown, ...]:
    """The next `count` firings (at most 1,000) that `cursor` has not used up, none after `until`."""
    spread = timer if seed else msgspec.structs.replace(timer, jitter=0)
    coming = between(spread, cursor, seed, LATEST if until is None else until)
    moments = (firing.planned_at for firing in islice(coming, max(0, min(count, COUNT_MAX))))
    note = LANGUAGES[language].note
    return tuple(Shown(at, local_text(at, timer.zone), note(timer.zone, at)) for at in moments)


def describe(timer: Timer, language: str = "en") -> str:
    """The timer as one sentence in `language`, without a full stop; or why it cannot be computed."""
    return timer.trouble or LANGUAGES[language].describe(timer)


HOURS_A_DAY = 24


class DayAhead(msgspec.Struct, frozen=True):
    """A local day, counted from 1970: how many firings, the first and the last one (UTC ms).

    `step`: by how much clocks change on it (ms), with `note` as text; None: they do not.
    """

    day: int
    count: int
    first: int | None
    last: int | None
    step: int | None
    note: str | None


class Outlook(msgspec.Struct, frozen=True):
    """The days that have firings or a change of the clock, and the firings by hour of the local day."""

    days: tuple[DayAhead, ...]
    by_hour: tuple[int, ...]
    until: int

    @property
    def total(self) -> int:
        """All firings."""
        return sum(self.by_hour)


class FiringCounts:
    """How many moments of a timer lie in a span, whatever has fired; without jitter.

    `anchor` is the moment of creation, as in `Cursor`.
    """

    def __init__(self, timer: Timer, anchor: int) -> None:
        self._timer = timer
        self._anchor = anchor
        self._from = begin(timer, anchor + 1)
        self._to = limit(timer, anchor)

    def within(self, start: int, end: int) -> int:
        """The number from `start` on and before `end`."""
        if self._timer.kind is TimerKind.CRON or self._timer.rule is not None:
            return self._one_by_one(start, end)
        return self._until(end - 1) - self._until(start - 1)

    def first(self, start: int) -> int | None:
        """The first one from `start` on."""
        match self._timer.kind:
            case TimerKind.TIMING if self._timer.from_end:
                cursor = Cursor(self._anchor)
            case TimerKind.ONE_TIME:
                cursor = Cursor(self._anchor)  # any moment in it would have used up the only firing
            case TimerKind.CRON:
                cursor = Cursor(self._anchor, start - 1)
            case _ if self._timer.rule is not None and self._timer.repeats is None:
                cursor = Cursor(self._anchor, start - 1)
            case _:
                cursor = Cursor(self._anchor, start - 1, self._until(start - 1))
        found = following(self._timer, cursor)
        return found if found is None or found >= start else None

    def last(self, end: int) -> int | None:
        """The last one before `end`."""
        return preceding(self._timer, Cursor(self._anchor), end)

    def _until(self, moment: int) -> int:
        return tally(self._timer, Cursor(self._anchor), moment, 1) or 0

    def _one_by_one(self, start: int, end: int) -> int:
        count = 0
        found = self.first(start)
        while found is not None and found < end:
            stop = min(end, next_hour(self._timer.zone, found))
            if self._is_even(found, stop):
                count += self._by_masks(found, stop)
            else:
                count += 1
                stop = found + 1
            found = self.first(stop)
        return count

    def _is_even(self, start: int, stop: int) -> bool:
        """Whether all moments of this part of an hour follow from the fields alone."""
        zone, rule = self._timer.zone, self._timer.rule
        if self._timer.kind is not TimerKind.CRON or (rule is not None and not rule.keeps(start, stop - 1)):
            return False
        index = bisect_right(zone.starts, start)
        for near in (index - 1, index):
            if 0 < near < len(zone.starts):
                width = abs(zone.offsets[near] - zone.offsets[near - 1]) + HOUR
                if zone.starts[near] - width < stop and start < zone.starts[near] + width:
                    return False
        return self._from <= start and stop - 1 <= self._to and stop % MINUTE == 0

    def _by_masks(self, found: int, stop: int) -> int:
        """The moments from one of them, `found`, to `stop`, both in one local hour."""
        cron = self._timer.cron
        assert cron is not None, "a cron timer has its expression"
        local = self._timer.zone.to_local(found)
        minute, second = local // MINUTE % 60, local // 1_000 % 60
        last = minute + (stop - found + second * 1_000 - 1) // MINUTE
        rest = (cron.pattern.minutes >> (minute + 1)) & ((1 << (last - minute)) - 1)
        each = cron.pattern.seconds.bit_count()
        return (cron.pattern.seconds >> second).bit_count() + rest.bit_count() * each


def look_ahead(timer: Timer, *, anchor: int, days: int, language: str = "en") -> Outlook:
    """The firings of so many local days, the first one that of `anchor`, the moment of creation.

    Notes are in this one of `LANGUAGES`.
    """
    counts, zone, words = FiringCounts(timer, anchor), timer.zone, LANGUAGES[language]
    day = zone.to_local(anchor) // DAY
    by_hour = [0] * HOURS_A_DAY
    found: list[DayAhead] = []
    for one in range(day, day + days):
        start, end = zone.after_gap(one * DAY), zone.after_gap((one + 1) * DAY)
        count = 0
        for begins, ends in _hours(zone, start, end):
            part = counts.within(begins, ends)
            by_hour[zone.to_local(begins) // HOUR % HOURS_A_DAY] += part
            count += part
        step = step_of_day(zone, start) if start < end else None
        if count or step is not None:
            first, last = (counts.first(start), counts.last(end)) if count else (None, None)
            found.append(DayAhead(one, count, first, last, step, words.note(zone, start)))
    return Outlook(tuple(found), tuple(by_hour), zone.after_gap((day + days) * DAY))


def next_hour(zone: Zone, moment: int) -> int:
    """The end of the local hour of `moment`, or the change of the clock before it."""
    end = moment + HOUR - zone.to_local(moment) % HOUR
    index = bisect_right(zone.starts, moment)
    return min(end, zone.starts[index]) if index < len(zone.starts) else end


def _hours(zone: Zone, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(end, next_hour(zone, start))
        yield start, stop
        start = stop
