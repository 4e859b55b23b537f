"""Which firings are due, late or missed (SPEC section 3, Misfire), and which fell into a pause."""

import msgspec

from scheduler_service.domain.document import Cursor
from scheduler_service.timing.schedule import (
    COUNT_MAX,
    Firing,
    advance,
    following,
    has_fixed_phase,
    latest,
    latest_planned,
    over,
    tally,
    upcoming,
)
from scheduler_service.timing.timer import Timer, TimerKind

WALK_MAX = 100
"""A turn walks at most this many moments to count a run."""


class MissedRun(msgspec.Struct, frozen=True, gc=False):
    """Missed firings from the one planned for `first` to the one for `last` (wall ms).

    `count` is at most 10,000; None: more than one turn may walk, left to `count_missed`.
    """

    first: int
    last: int
    count: int | None


class DueFirings(msgspec.Struct, frozen=True):
    """The firings of a timer that are due; `cursor` has used up all of them.

    `missed` goes into the ledger as skipped, `caught_up` fires first (oldest first), then `late` in order.
    `following` is the next firing after `cursor`; None: there is none.
    """

    missed: MissedRun | None
    caught_up: tuple[Firing, ...]
    late: tuple[Firing, ...]
    cursor: Cursor
    following: Firing | None


class Resumption(msgspec.Struct, frozen=True):
    """The end of a pause into which `count` firings (at most 10,000) fell.

    `missed` are those that do not fire, `caught_up` those that do; `cursor` is where the timer goes on.
    """

    missed: MissedRun | None
    caught_up: tuple[Firing, ...]
    count: int
    cursor: Cursor


class MisfireCount(msgspec.Struct, frozen=True, gc=False):
    """A count in progress: `count` moments up to and including `at`."""

    count: int
    at: int
    done: bool


def plan(
    timer: Timer,
    cursor: Cursor,
    seed: str,
    *,
    now: int,
    lead: int = 0,
    most: int = 1_000,
    room: int = COUNT_MAX,
    policy: str | None = None,
) -> DueFirings:
    """Which planned firings are due at `now`, or up to `lead` ms later, and what becomes of each.

    Firings planned more than the grace before `now` are missed; `policy` (default: the timer's) decides which
    of them are caught up. The others are `late`, at most `most`: call again with the new cursor for the rest.
    No more than `room` fire now; of those to be caught up beyond it, the next call decides anew. Missed
    repeats are used up.
    """
    first = upcoming(timer, cursor, seed)
    if first is None or first.planned_at > now + lead:
        return DueFirings(None, (), (), cursor, first)
    missed: MissedRun | None = None
    caught_up: tuple[Firing, ...] = ()
    overdue = now - timer.misfire_grace
    last = latest_planned(timer, cursor, seed, overdue) if first.planned_at < overdue else None
    if last is not None:
        missed, caught_up = _split(timer, cursor, seed, last, policy or timer.misfire_policy, WALK_MAX)
        if is_cut := len(caught_up) > room:
            caught_up = caught_up[:room]
            last = caught_up[-1]
        used_up = _used_up(timer, cursor, last, missed, caught_up)
        cursor = advance(cursor, last, used_up)
        first = upcoming(timer, cursor, seed)
        if is_cut:
            return DueFirings(missed, caught_up, (), cursor, first)
    late: list[Firing] = []
    if room < most + len(caught_up):
        most = room - len(caught_up)
    while first is not None and first.planned_at <= now + lead and len(late) < most:
        late.append(first)
        cursor = advance(cursor, first)
        first = upcoming(timer, cursor, seed)
    return DueFirings(missed, caught_up, tuple(late), cursor, first)


def resume(timer: Timer, cursor: Cursor, *, now: int, seed: str, policy: str = "skip") -> Resumption:
    """The end of a pause: the timer starts again from `now` (SPEC section 10, PUT).

    The firings planned since `cursor` and before `now` fell into the pause; `policy` decides which of them
    are caught up. Those use up repeats, the others none. Cron and an absolute `dueTime` keep their phase, a
    relative one and `ttl` count from `now`, and a `one_time` that has not fired fires.
    """
    fresh = Cursor(now, cursor.last, cursor.used)
    if timer.kind is TimerKind.ONE_TIME:
        return Resumption(None, (), 0, fresh)
    if timer.from_end:
        ahead = cursor.last if cursor.last is not None and cursor.last >= now else None
        fresh = msgspec.structs.replace(cursor, anchor=now, last=ahead)
    # Cron fires strictly after its anchor, so a moment equal to `now` belongs to the pause; of a timing not.
    is_cron = timer.kind is TimerKind.CRON
    last = latest_planned(timer, cursor, seed, now + is_cron)
    if has_fixed_phase(timer):
        # What jitter moves behind the pause is still to come; `ttl` counts from its moment then.
        anchor = over(timer, cursor, seed, now + is_cron) + (not is_cron)
        fresh = msgspec.structs.replace(fresh, anchor=anchor)
    if last is None:
        return Resumption(None, (), 0, fresh)
    missed, caught_up = _split(timer, cursor, seed, last, policy, COUNT_MAX)
    if missed is not None and missed.count is None:
        missed = MissedRun(missed.first, missed.last, COUNT_MAX)
    count = min(COUNT_MAX, len(caught_up) + (missed.count or 0 if missed else 0))
    if has_fixed_phase(timer):
        fresh = Cursor(fresh.anchor, last.base)
    fresh = msgspec.structs.replace(fresh, used=cursor.used + len(caught_up))
    return Resumption(missed, caught_up, count, fresh)


def count_missed(
    timer: Timer, first: int, last: int, *, start: MisfireCount | None = None, most: int = 500
) -> MisfireCount:
    """One slice of the count of a run that `plan` left uncounted, from `first` to `last`.

    Walks at most `most` moments; call again with `start` until it is done. Stops at 10,000. Only runs of
    cron timers are ever left uncounted.
    """
    tallied = start or MisfireCount(1, first, first >= last)
    count, at = tallied.count, tallied.at
    for _ in range(most):
        after = following(timer, Cursor(first - 1, at))
        if tallied.done or after is None or after > last or count >= COUNT_MAX:
            return MisfireCount(count, at, True)
        count, at = count + 1, after
    return MisfireCount(count, at, False)


def _split(
    timer: Timer, cursor: Cursor, seed: str, last: Firing, policy: str, walk: int
) -> tuple[MissedRun | None, tuple[Firing, ...]]:
    """The firings up to `last`: the run that does not fire, and those caught up, oldest first."""
    caught_up = _newest(timer, cursor, seed, last, _allowance(timer, policy))
    end = latest(timer, cursor, seed, caught_up[0].base) if caught_up else last
    if end is None:
        return None, caught_up
    first = upcoming(timer, cursor, seed)
    assert first is not None, "a run with an end has a beginning"
    counted = tally(timer, cursor, end.base, walk)
    count = None if counted is None else min(counted, COUNT_MAX)
    return MissedRun(first.planned_at, end.planned_at, count), caught_up


def _allowance(timer: Timer, policy: str) -> int:
    """How many missed firings the policy catches up."""
    return {"skip": 0, "fire_once": 1}.get(policy, timer.misfire_limit)


def _newest(timer: Timer, cursor: Cursor, seed: str, last: Firing, most: int) -> tuple[Firing, ...]:
    found: list[Firing] = []
    firing: Firing | None = last
    while firing is not None and len(found) < most:
        found.append(firing)
        firing = latest(timer, cursor, seed, firing.base)
    return tuple(reversed(found))


def _used_up(
    timer: Timer, cursor: Cursor, last: Firing, missed: MissedRun | None, caught_up: tuple[Firing, ...]
) -> int:
    """How many repeats are used up: exact for timing, the only kind with repeats."""
    if timer.kind is TimerKind.TIMING:
        return tally(timer, cursor, last.base, WALK_MAX) or 0
    return len(caught_up) + (missed.count or 0 if missed else 0)
