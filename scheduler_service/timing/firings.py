"""The planned firings of a timer (SPEC section 3). They are computed, never stored."""

from collections.abc import Iterator

import msgspec

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.errors import Problem
from scheduler_service.timing.backoff import digest
from scheduler_service.timing.occurrences import first_moment, following, limit, preceding
from scheduler_service.timing.timer import Timer, TimerKind


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


def warnings_at(timer: Timer, anchor: int) -> tuple[Problem, ...]:
    """The warnings that need the moment of creation or update (SPEC section 3).

    `in_the_past`: all moments are before `anchor`. `never_fires`: `startAt`, `endAt` and `ttl` leave no
    moment, or the first one is after the year 9999.
    """
    if timer.kind is TimerKind.EXTERNAL or following(timer, Cursor(anchor)) is not None:
        return ()
    if timer.kind is TimerKind.TIMING and first_moment(timer, anchor) is None:
        message = "its first moment is after the year 9999, so it does not fire; give an earlier dueTime"
        return (Problem("/dueTime", "never_fires", message),)
    free = msgspec.structs.replace(timer, start_at=None, end_at=None, ttl=None)
    if following(free, Cursor(anchor)) is None or limit(timer, anchor) < anchor:
        return (Problem("", "in_the_past", "all moments of the timer have passed; it does not fire"),)
    return (Problem("", "never_fires", "startAt, endAt and ttl leave the timer no moment; it does not fire"),)


def _plan(timer: Timer, anchor: int, base: int, seed: str) -> Firing:
    """The firing at `base`, with jitter that stays before the next moment and within `endAt` and `ttl`."""
    if timer.jitter == 0:
        return Firing(base, base)
    room = min(timer.jitter, limit(timer, anchor) - base)
    after = following(timer, Cursor(anchor, base))
    if after is not None:
        room = min(room, after - base - 1)
    return Firing(base, base + digest(f"{seed}@{base}") % (room + 1))
