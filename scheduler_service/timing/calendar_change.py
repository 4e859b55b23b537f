"""What another calendar would change in the firings of a timer, without a walk over all of them.

Plans differ only near days that differ between the two calendars, so only these are looked at.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY
from scheduler_service.timing.calendar_days import (
    FARTHEST_DAYS,
    LAST_DAY,
    PREVIOUS,
    SKIP,
    WORK,
    Calendar,
    DayRule,
    DaySpan,
)
from scheduler_service.timing.durations import LATEST
from scheduler_service.timing.schedule import COUNT_MAX, between, following, tally
from scheduler_service.timing.timer import Timer, bind_calendar

DAYS_AHEAD = 2_200
"""Six years: public holidays of a country are stored for so long."""
MOST_STEPS = 5_000
"""So many moments of one timer are compared, about 0.1 s of work."""


class PlanChange(msgspec.Struct, frozen=True):
    """The first firings from the first one on that differs (wall ms).

    `first` None: none was found among the moments that were compared, and there are more; the firings are
    then the next ones.
    """

    first: int | None
    before: tuple[int, ...]
    after: tuple[int, ...]


def find_days(before: Calendar | None, after: Calendar, now: int) -> list[DaySpan]:
    """The days from that of `now` on, six years ahead at most, on which two calendars differ.

    With other time zones also each day that is not as the one before it: it begins at another moment.
    """
    today = now // DAY - 1  # days of zones in the west
    if before is None:
        return [DaySpan(today, today + DAYS_AHEAD)]
    has_moved = before.zone is not after.zone
    spans: list[DaySpan] = []
    kinds = (before.is_work(today - 1), after.is_work(today - 1))
    for day in range(today, min(today + DAYS_AHEAD, LAST_DAY)):
        earlier, kinds = kinds, (before.is_work(day), after.is_work(day))
        if kinds[0] is kinds[1] and not (has_moved and kinds != earlier):
            continue
        if spans and spans[-1].last == day - 1:
            spans[-1] = DaySpan(spans[-1].first, day)
        else:
            spans.append(DaySpan(day, day))
    return spans


def find_change(
    timer: Timer,
    calendar: Calendar,
    days: Sequence[DaySpan],
    cursor: Cursor,
    *,
    now: int,
    seed: str,
    count: int,
) -> PlanChange | None:
    """What `calendar` changes in the firings after `now`, `count` of each plan; None: nothing.

    `days` are those of `find_days` for the calendar of the timer, and `seed` is the uid of the job.
    """
    if timer.rule is None:
        return None
    changed = bind_calendar(timer, calendar)
    assert changed.rule is not None, "it has the rule of the timer"

    def show(first: int | None, old: Cursor, new: Cursor) -> PlanChange:
        return PlanChange(first, _show(timer, old, seed, count), _show(changed, new, seed, count))

    old = new = _forward(timer, cursor, now + 1)
    begun, steps, first = new or cursor, 0, 0
    for span in days:
        start, end = _window(timer.rule, changed.rule, span)
        if first >= end:
            continue  # the next moment of both plans lies behind these days
        old, new = old and _forward(timer, old, start), new and _forward(changed, new, start)
        while old is not None and new is not None:
            moments = following(timer, old), following(changed, new)
            first = min((one for one in moments if one is not None), default=LATEST)
            if first >= end:
                break
            if moments[0] != moments[1]:
                return show(first, old, new)
            old, new = Cursor(old.anchor, first, old.used + 1), Cursor(new.anchor, first, new.used + 1)
            steps += 1
            if steps > MOST_STEPS:
                return show(None, begun, begun)
        if old is None or new is None:
            return show(None, begun, begun)
    return None


def _window(rule: DayRule, changed: DayRule, span: DaySpan) -> tuple[int, int]:
    """The moments, the last one excluded, among which firings differ because of these days."""
    first, last = span.first, span.last
    if rule.otherwise == PREVIOUS:
        first = _find_right(rule, changed, first - 1, -1)
    elif rule.otherwise != SKIP:
        last = _find_right(rule, changed, last + 1, 1)
    zones = [one.zone for one in (rule, changed) if one.zone is not None]
    starts = [zone.after_gap(first * DAY) for zone in zones]
    return min(starts), max(zone.after_gap((last + 1) * DAY) for zone in zones)


def _find_right(rule: DayRule, changed: DayRule, day: int, step: int) -> int:
    """The first day in this direction on which both fire, or the farthest from which a moment moves."""
    calendars = [one.calendar for one in (rule, changed) if one.calendar is not None]
    wanted = rule.days == WORK
    for one in range(day, day + step * FARTHEST_DAYS, step):
        if all(calendar.is_work(one) is wanted for calendar in calendars):
            return one
    return day + step * FARTHEST_DAYS


def _forward(timer: Timer, cursor: Cursor, start: int) -> Cursor | None:
    """The cursor behind all moments before `start`; None: they are too many to count repeats."""
    if cursor.last is not None and cursor.last >= start - 1:
        return cursor
    used = 0
    if timer.repeats is not None:
        used = tally(timer, cursor, start - 1, COUNT_MAX) or 0
        if used >= COUNT_MAX:
            return None
    return Cursor(cursor.anchor, start - 1, cursor.used + used)


def _show(timer: Timer, cursor: Cursor, seed: str, count: int) -> tuple[int, ...]:
    coming: Iterator[int] = (one.planned_at for one in between(timer, cursor, seed, LATEST))
    return tuple(islice(coming, count))
