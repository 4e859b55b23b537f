"""The preview of a timer: as text, and its next firings in UTC and local time (SPEC section 3)."""

from itertools import islice

import msgspec

from scheduler_service.domain.document import Cursor
from scheduler_service.timing import chinese, cron_describe, zones
from scheduler_service.timing.durations import LATEST, Duration, as_text
from scheduler_service.timing.occurrences import between
from scheduler_service.timing.timer import Timer, TimerKind
from scheduler_service.timing.times import local_text

COUNT_MAX = 1_000


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
    of that job, without one they have none. `language` (en, zh) is that of the words.
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
    note = chinese.note if language == "zh" else zones.note
    return tuple(Shown(at, local_text(at, timer.zone), note(timer.zone, at)) for at in moments)


def describe(timer: Timer, language: str = "en") -> str:
    """The timer as one sentence in `language` (en, zh), without a full stop."""
    if language == "zh":
        return chinese.describe(timer)
    parts = [_describe_kind(timer)]
    if timer.kind is TimerKind.EXTERNAL:
        return parts[0]
    if timer.start_at is not None and timer.kind is not TimerKind.ONE_TIME:
        parts.append(f"not before {_moment(timer, timer.start_at)}")
    if timer.end_at is not None:
        parts.append(f"not after {_moment(timer, timer.end_at)}")
    if timer.ttl is not None:
        parts.append(_describe_ttl(timer, timer.ttl))
    if timer.jitter:
        parts.append(f"each up to {as_text(Duration(ms=timer.jitter))} later")
    return ", ".join(parts)


def _describe_kind(timer: Timer) -> str:
    match timer.kind:
        case TimerKind.EXTERNAL:
            return "Only when it is triggered"
        case TimerKind.ONE_TIME:
            start = timer.start_at
            return "Once, at once" if start is None else f"Once, at {_moment(timer, start)}"
        case TimerKind.CRON:
            assert timer.cron is not None
            return f"{cron_describe.describe(timer.cron)}, {timer.zone.name} time"
        case _:
            return _describe_timing(timer)


def _describe_timing(timer: Timer) -> str:
    assert timer.period is not None
    assert timer.due is not None
    first = _describe_due(timer, timer.due)
    if timer.repeats == 1:
        return f"Once, {first}"
    times = "" if timer.repeats is None else f", {timer.repeats} times in all"
    words = as_text(timer.period)
    every = words.removeprefix("1 ") if words.count(" ") == 1 else words
    return f"Every {every}, first {first}{times}"


def _describe_due(timer: Timer, due: int | Duration) -> str:
    if isinstance(due, int):
        return f"at {_moment(timer, due)}"
    return "at once" if due.is_zero else f"{as_text(due)} after its creation"


def _describe_ttl(timer: Timer, ttl: int | Duration) -> str:
    if isinstance(ttl, int):
        return f"not after {_moment(timer, ttl)}"
    return f"for {as_text(ttl)} from its creation"


def _moment(timer: Timer, moment: int) -> str:
    return f"{local_text(moment, timer.zone)[:19].replace('T', ' ')} {timer.zone.name} time"
