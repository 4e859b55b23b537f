"""The moments of a timer in order, and its planned firings: moments with jitter (SPEC section 3).

They are computed, never stored."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.errors import Problem
from scheduler_service.timing.backoff import digest
from scheduler_service.timing.calendar_days import DaysOf
from scheduler_service.timing.cron import Cron
from scheduler_service.timing.durations import LATEST, Duration, mean_length, shift, shift_local
from scheduler_service.timing.timer import Timer, TimerKind

COUNT_MAX = 10_000
"""A run of missed firings is counted no further."""
# Names of the module: a lookup in the enum costs ten times as much, in every firing.
TIMING, CRON, ONE_TIME = TimerKind.TIMING, TimerKind.CRON, TimerKind.ONE_TIME


def following(timer: Timer, cursor: Cursor) -> int | None:
    """The first moment that `cursor` has not used up; None: none is left, or the timer is external."""
    moment = _unlimited(timer, cursor)
    return moment if moment is not None and moment <= limit(timer, cursor.anchor) else None


def preceding(timer: Timer, cursor: Cursor, before: int) -> int | None:
    """The last moment earlier than `before` that `cursor` has not used up, or None."""
    first = following(timer, cursor)
    if first is None or first >= before:
        return None
    if timer.from_end:
        return first
    if timer.rule is not None:
        return _preceding_on_days(timer, cursor, first, min(before, limit(timer, cursor.anchor) + 1))
    end = min(before, limit(timer, cursor.anchor) + 1)
    match timer.kind:
        case TimerKind.TIMING:
            return _preceding_timing(timer, cursor, end)
        case TimerKind.CRON:
            return _cron(timer).previous(end, timer.zone)
        case _:
            return first


def tally(timer: Timer, cursor: Cursor, until: int, most: int) -> int | None:
    """How many moments up to and including `until` the cursor has not used up.

    Computed for timing; counted for cron, None if there are more than `most`.
    """
    if timer.rule is not None:
        return _tally_on_days(timer, cursor, until, COUNT_MAX if timer.kind is TIMING else most)
    if timer.kind is TimerKind.TIMING and not (timer.from_end or timer.trouble):
        return _tally_timing(timer, cursor, until)
    count = 0
    moment = following(timer, cursor)
    while moment is not None and moment <= until:
        count += 1
        if count > most:
            return None
        moment = following(timer, Cursor(cursor.anchor, moment, cursor.used + count))
    return count


def limit(timer: Timer, anchor: int) -> int:
    """The last moment, included, at which `endAt` and `ttl` allow a firing."""
    end = LATEST if timer.end_at is None else min(timer.end_at, LATEST)
    if timer.ttl is None:
        return end
    ttl = _from_anchor(timer.ttl, anchor, timer)
    return end if ttl is None else min(end, ttl)


def begin(timer: Timer, anchor: int) -> int:
    """The first moment, included, at which anchor and `startAt` allow a firing."""
    return anchor if timer.start_at is None else max(anchor, timer.start_at)


def first_moment(timer: Timer, anchor: int) -> int | None:
    """The moment of a `timing` with index 0, perhaps in the past; None: after the year 9999."""
    assert timer.due is not None, "a timing has a due time"
    return _from_anchor(timer.due, anchor, timer)


def has_fixed_phase(timer: Timer) -> bool:
    """Whether its moments do not change when it starts again."""
    if timer.kind is TimerKind.TIMING:
        return isinstance(timer.due, int) and not timer.from_end
    return timer.kind is TimerKind.CRON


class Firing(msgspec.Struct, frozen=True, gc=False):
    """One planned firing: `base` is its moment, `planned_at` the moment with jitter (wall ms)."""

    base: int
    planned_at: int


def upcoming(timer: Timer, cursor: Cursor, seed: str) -> Firing | None:
    """The first firing that `cursor` has not used up; None: none is left, or the timer is external.

    It depends only on its arguments, so a clock that is set back repeats nothing. `seed` is the uid of the
    job, so that jobs with equal timers get different jitter.
    """
    base = following(timer, cursor)
    return None if base is None else _plan(timer, cursor.anchor, base, seed)


def latest(timer: Timer, cursor: Cursor, seed: str, before: int) -> Firing | None:
    """The last firing with a moment earlier than `before` that `cursor` has not used up, or None."""
    base = preceding(timer, cursor, before)
    return None if base is None else _plan(timer, cursor.anchor, base, seed)


def latest_planned(timer: Timer, cursor: Cursor, seed: str, before: int) -> Firing | None:
    """The last firing planned before `before` that is left; jitter moves at most one firing past it."""
    last = latest(timer, cursor, seed, before)
    if last is None or last.planned_at < before:
        return last
    return latest(timer, cursor, seed, last.base)


def over(timer: Timer, cursor: Cursor, seed: str, moment: int) -> int:
    """The last moment that is over before `moment`: one that jitter moves to it or later is still to come."""
    last = latest(timer, cursor, seed, moment) if timer.jitter else None
    return moment - 1 if last is None or last.planned_at < moment else last.base - 1


def advance(cursor: Cursor, firing: Firing, count: int = 1) -> Cursor:
    """The cursor after `count` more firings, the last of which is `firing`."""
    return Cursor(cursor.anchor, firing.base, cursor.used + count)


def between(timer: Timer, cursor: Cursor, seed: str, last: int) -> Iterator[Firing]:
    """The firings from `cursor` on that are planned for `last` or earlier, in order, lazily."""
    firing = upcoming(timer, cursor, seed)
    while firing is not None and firing.planned_at <= last:
        yield firing
        cursor = advance(cursor, firing)
        firing = upcoming(timer, cursor, seed)


def planned_between(timer: Timer, cursor: Cursor, seed: str, first: int, last: int) -> Iterator[Firing]:
    """The firings of a recurring timer between two moments, both included, whatever has fired; lazily.

    `cursor` is the present one. If the timer `keeps_grid`, also those before the anchor (its creation, update
    or resumption); else none before it. None after the last repeat.
    """
    since, anchor = first - timer.jitter, cursor.anchor
    is_spent = timer.repeats is not None and cursor.used >= timer.repeats
    if keeps_grid(timer) and since <= anchor:
        timer, anchor = msgspec.structs.replace(timer, ttl=limit(timer, anchor)), since - 1
    used = 0 if timer.kind is CRON else tally(timer, Cursor(anchor), since - 1, 1) or 0
    for firing in between(timer, Cursor(anchor, since - 1, used), seed, last):
        if is_spent and cursor.last is not None and firing.base > cursor.last:
            return
        if firing.planned_at >= first:
            yield firing


def keeps_grid(timer: Timer) -> bool:
    """Whether its moments follow from its definition alone, however often it was paused."""
    return has_fixed_phase(timer) and timer.repeats is None


def moments_of_run(timer: Timer, first: int, last: int, count: int | None, since: int) -> Iterator[int]:
    """The moments from `since` on of a run of the ledger, `count` firings of a timing from `first` to `last`.

    They have the timer's period, unless the count says that they had another one then.
    """
    grid = msgspec.structs.replace(
        timer, due=first, due_local=None, repeats=None, ttl=None, start_at=None, end_at=None, jitter=0
    )
    found = tally(grid, Cursor(first), last, 1) or 0
    if count is not None and 1 < count < COUNT_MAX and abs(found - count) > 1:
        moments = (first + (last - first) * place // (count - 1) for place in range(count))
        yield from (moment for moment in moments if moment >= since)
        return
    for one in between(grid, Cursor(first, max(first, since) - 1), "", last - 1):
        if last - one.base > timer.jitter:
            yield one.base
    yield last


def warnings_at(timer: Timer, anchor: int) -> tuple[Problem, ...]:
    """The warnings that need the moment of creation or update (SPEC section 3).

    `in_the_past`: all moments are before `anchor`. `never_fires`: `startAt`, `endAt` and `ttl`, or the
    calendar, leave no moment, or the first one is after the year 9999.
    """
    if timer.kind is TimerKind.EXTERNAL or following(timer, Cursor(anchor)) is not None:
        return ()
    if timer.kind is TimerKind.TIMING and first_moment(timer, anchor) is None:
        message = "its first moment is after the year 9999, so it does not fire; give an earlier dueTime"
        return (Problem("/dueTime", "never_fires", message),)
    free = msgspec.structs.replace(timer, start_at=None, end_at=None, ttl=None)
    is_over = following(free, Cursor(anchor)) is None
    if is_over and following(msgspec.structs.replace(free, rule=None), Cursor(anchor)) is not None:
        message = "no moment of the timer comes out on a day of the calendar; it does not fire"
        return (Problem("/calendar", "never_fires", message),)
    if is_over or limit(timer, anchor) < anchor:
        return (Problem("", "in_the_past", "all moments of the timer have passed; it does not fire"),)
    return (Problem("", "never_fires", "startAt, endAt and ttl leave the timer no moment; it does not fire"),)


def _unlimited(timer: Timer, cursor: Cursor) -> int | None:
    kind = timer.kind
    if timer.trouble:
        return None
    if timer.rule is not None:
        floor = _floor_on_days(timer, cursor)
        return None if floor is None else _days(timer, cursor.anchor).next(floor - 1)
    if kind is TIMING:
        if timer.from_end:
            return _delayed(timer, cursor)
        is_single = _period(timer).is_zero
        if is_single and cursor.used:  # the usual one-shot job has fired
            return None
        origin = first_moment(timer, cursor.anchor)
        if is_single:
            return origin if origin is not None and origin >= _floor(timer, cursor) else None
        index, last = _indices(timer, cursor, origin)
        return None if index > last else _nth(timer, cursor.anchor, origin, index)
    if kind is CRON:
        after = begin(timer, cursor.anchor + 1) - 1
        return _cron(timer).next(after if cursor.last is None else max(after, cursor.last), timer.zone)
    if kind is ONE_TIME:
        return begin(timer, cursor.anchor) if cursor.last is None else None
    return None


def _delayed(timer: Timer, cursor: Cursor) -> int | None:
    """The only moment that a fixed delay has: the first by `dueTime`, and never within a delay after an end.

    None while an execution runs, and after a firing whose end is not known yet.
    """
    if cursor.runs or (timer.repeats is not None and cursor.used >= timer.repeats):
        return None
    floor: int | None = _floor(timer, cursor)
    if cursor.last is None:
        origin = first_moment(timer, cursor.anchor)
        floor = _nth(
            timer, cursor.anchor, origin, _search(timer, cursor.anchor, origin, _floor(timer, cursor))
        )
        if cursor.ended is None:
            return floor
    elif cursor.ended is None:
        return None
    after = shift(cursor.ended, _period(timer), 1, timer.zone)
    return None if floor is None or after is None else max(floor, after)


class _Grid:
    """`calendars.Grid`: the moments of a timing or cron timer, whatever its bounds, repeats and calendar."""

    def __init__(self, timer: Timer, anchor: int) -> None:
        self._timer, self._anchor = timer, anchor
        self._origin = first_moment(timer, anchor) if timer.kind is TIMING else None

    def next(self, after: int) -> int | None:
        timer, anchor, origin = self._timer, self._anchor, self._origin
        if timer.kind is CRON:
            return _cron(timer).next(after, timer.zone)
        index = _search(timer, anchor, origin, after + 1)
        return None if index and _period(timer).is_zero else _nth(timer, anchor, origin, index)

    def previous(self, before: int) -> int | None:
        timer, anchor, origin = self._timer, self._anchor, self._origin
        if timer.kind is CRON:
            return _cron(timer).previous(before, timer.zone)
        return _nth(timer, anchor, origin, _search(timer, anchor, origin, before) - 1)

    def delays(self, moment: int) -> Iterable[int]:
        timer, anchor, zone = self._timer, self._anchor, self._timer.zone
        if not zone.skipped(moment):
            return (0,)
        local = zone.to_local(moment)
        if timer.kind is CRON:
            return (local - time for time in _cron(timer).times_at(moment, zone))
        time = self._time_of(_search(timer, anchor, self._origin, moment))
        return (0,) if time is None or time not in zone.skipped(moment) else (local - time,)

    def _time_of(self, index: int) -> int | None:
        """The local time of a moment of a timing as it was written; None: it is no local time."""
        timer, period = self._timer, _period(self._timer)
        written = _written(timer, self._anchor)
        if written is None and self._origin is not None:
            written = timer.zone.to_local(self._origin)
        if index == 0 or written is None:
            return written
        return None if period.ms else shift_local(written, period, index)


def _days(timer: Timer, anchor: int) -> DaysOf:
    assert timer.rule is not None, "asked of timers with a calendar"
    return DaysOf(timer.rule, _Grid(timer, anchor), timer.zone)


def _floor_on_days(timer: Timer, cursor: Cursor) -> int | None:
    """The earliest moment that can be left of a timer with a calendar; None: its repeats are used up."""
    if timer.repeats is not None and cursor.used >= timer.repeats:
        return None
    floor = begin(timer, cursor.anchor + (timer.kind is CRON))
    return floor if cursor.last is None else max(floor, cursor.last + 1)


def _walk_on_days(timer: Timer, cursor: Cursor, until: int) -> Iterator[int]:
    """The moments left, up to and including `until`, with one look at each day."""
    floor, end = _floor_on_days(timer, cursor), min(until, limit(timer, cursor.anchor))
    if floor is None or timer.trouble or timer.rule is None:
        return
    days = _days(timer, cursor.anchor)
    left = None if timer.repeats is None else timer.repeats - cursor.used
    moment = days.next(floor - 1)
    while moment is not None and moment <= end and left != 0:
        yield moment
        left = None if left is None else left - 1
        moment = days.next(moment)


def _preceding_on_days(timer: Timer, cursor: Cursor, first: int, end: int) -> int | None:
    assert timer.rule is not None
    if timer.repeats is None or timer.repeats - cursor.used > COUNT_MAX:
        return _days(timer, cursor.anchor).previous(end)
    for moment in _walk_on_days(timer, cursor, end - 1):
        first = moment
    return first


def _tally_on_days(timer: Timer, cursor: Cursor, until: int, most: int) -> int | None:
    count = sum(1 for _ in islice(_walk_on_days(timer, cursor, until), most + 1))
    return count if count <= most else most if timer.kind is TIMING else None


def _preceding_timing(timer: Timer, cursor: Cursor, end: int) -> int | None:
    origin = first_moment(timer, cursor.anchor)
    _, last = _indices(timer, cursor, origin)
    return _nth(timer, cursor.anchor, origin, min(_search(timer, cursor.anchor, origin, end) - 1, last))


def _tally_timing(timer: Timer, cursor: Cursor, until: int) -> int:
    origin = first_moment(timer, cursor.anchor)
    index, last = _indices(timer, cursor, origin)
    end = min(until, limit(timer, cursor.anchor)) + 1
    return max(0, min(_search(timer, cursor.anchor, origin, end) - 1, last) - index + 1)


def _indices(timer: Timer, cursor: Cursor, origin: int | None) -> tuple[int, int]:
    """The first and last index of a timing that the cursor has left; first > last: none."""
    index = _search(timer, cursor.anchor, origin, _floor(timer, cursor))
    if _period(timer).is_zero:
        return index, -cursor.used
    return index, LATEST if timer.repeats is None else index + timer.repeats - cursor.used - 1


def _floor(timer: Timer, cursor: Cursor) -> int:
    """The earliest moment that can be left."""
    floor = begin(timer, cursor.anchor)
    return floor if cursor.last is None else max(floor, cursor.last + 1)


def _search(timer: Timer, anchor: int, origin: int | None, moment: int) -> int:
    """The smallest index whose moment is not before `moment`, or is after the year 9999."""
    period = _period(timer)
    if origin is None or origin >= moment:
        return 0
    if period.is_zero:
        return 1
    if not (period.months or period.days):
        return -((origin - moment) // period.ms)
    return _search_calendar(timer, anchor, origin, moment)


def _search_calendar(timer: Timer, anchor: int, origin: int, moment: int) -> int:
    """By bisection, around the index that the mean length gives."""

    def is_reached(index: int) -> bool:
        found = _nth(timer, anchor, origin, index)
        return found is None or found >= moment

    guess = (moment - origin) // mean_length(_period(timer))
    # The calendar is behind its mean by less than two periods, and ahead of it if a zone skipped a day.
    low, step = max(0, guess - 2), 2
    while not is_reached(high := guess + step):
        step *= 2
    return low + bisect_left(range(low, high), True, key=is_reached)


def _nth(timer: Timer, anchor: int, origin: int | None, index: int) -> int | None:
    if origin is None or index < 0:
        return None
    period = _period(timer)
    local = _written(timer, anchor) if period.months or period.days else None
    return shift(origin, period, index, timer.zone, local)


def _written(timer: Timer, anchor: int) -> int | None:
    """The local time that its first moment has by `dueTime`, though clocks may skip it; None: as it is."""
    due = timer.due
    if not isinstance(due, Duration):
        return timer.due_local
    return None if due.ms or due.is_zero else shift_local(timer.zone.to_local(anchor), due, 1)


def _from_anchor(length: int | Duration, anchor: int, timer: Timer) -> int | None:
    return length if isinstance(length, int) else shift(anchor, length, 1, timer.zone)


def _period(timer: Timer) -> Duration:
    assert timer.period is not None, "a timing has a period"
    return timer.period


def _cron(timer: Timer) -> Cron:
    assert timer.cron is not None, "a cron timer has its expression"
    return timer.cron


def _plan(timer: Timer, anchor: int, base: int, seed: str) -> Firing:
    """The firing at `base`, with jitter that stays before the next moment and within `endAt` and `ttl`."""
    if timer.jitter == 0:
        return Firing(base, base)
    room = min(timer.jitter, limit(timer, anchor) - base)
    after = following(timer, Cursor(anchor, base))
    if after is not None:
        room = min(room, after - base - 1)
    return Firing(base, base + digest(f"{seed}@{base}") % (room + 1))
