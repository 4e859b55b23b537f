"""A timer in English, for previews (SPEC section 3)."""

from scheduler_service.domain.moments import SECOND
from scheduler_service.timing import cron_english
from scheduler_service.timing.calendar_days import SKIP, WORK
from scheduler_service.timing.durations import Duration, amounts
from scheduler_service.timing.timer import Timer, TimerKind
from scheduler_service.timing.times import local_text
from scheduler_service.timing.zones import Zone, step_of_day


def describe(timer: Timer) -> str:
    """The timer as one English sentence, without a full stop."""
    parts = [_on_days(timer, _describe_kind(timer))]
    if timer.kind is TimerKind.EXTERNAL:
        return parts[0]
    if timer.start_at is not None and timer.kind is not TimerKind.ONE_TIME:
        parts.append(f"not before {_moment(timer, timer.start_at)}")
    if timer.end_at is not None:
        parts.append(f"not after {_moment(timer, timer.end_at)}")
    if timer.ttl is not None:
        parts.append(_describe_ttl(timer, timer.ttl))
    if timer.jitter:
        parts.append(f"each up to {length(Duration(ms=timer.jitter))} later")
    return ", ".join(parts)


def note(zone: Zone, moment: int) -> str | None:
    """A note if clocks change on the local day of `moment`, else None."""
    step = step_of_day(zone, moment)
    if step is None:
        return None
    return f"clocks go {'forward' if step > 0 else 'back'} by {_span(step)} this day"


def length(duration: Duration) -> str:
    """The duration in English, as in `2 hours 30 minutes`."""
    return " ".join(_amount(count, name) for count, name in amounts(duration)) or "0 seconds"


def _describe_kind(timer: Timer) -> str:
    match timer.kind:
        case TimerKind.EXTERNAL:
            return "Only when it is triggered"
        case TimerKind.ONE_TIME:
            start = timer.start_at
            return "Once, at once" if start is None else f"Once, at {_moment(timer, start)}"
        case TimerKind.CRON:
            assert timer.cron is not None
            return f"{cron_english.describe(timer.cron)}, {timer.zone.name} time"
        case _:
            return _describe_timing(timer)


def _on_days(timer: Timer, words: str) -> str:
    rule = timer.rule
    if rule is None:
        return words
    days = f"on {'working' if rule.days == WORK else 'free'} days of {rule.name}"
    zone = f", {timer.zone.name} time"
    if words.endswith(f" every day{zone}"):
        words = f"{words.removesuffix(f' every day{zone}')} {days}{zone}"
    else:
        words = f"{words}, {days} alone"
    return words if rule.otherwise == SKIP else f"{words}, else on the {rule.otherwise} such day"


def _describe_timing(timer: Timer) -> str:
    assert timer.period is not None
    assert timer.due is not None
    first = _describe_due(timer, timer.due)
    if timer.repeats == 1:
        return f"Once, {first}"
    times = "" if timer.repeats is None else f", {timer.repeats} times in all"
    words = length(timer.period)
    if timer.from_end:
        return f"{words} after each end, first {first}{times}"
    every = words.removeprefix("1 ") if words.count(" ") == 1 else words
    return f"Every {every}, first {first}{times}"


def _describe_due(timer: Timer, due: int | Duration) -> str:
    if isinstance(due, int):
        return f"at {_moment(timer, due)}"
    return "at once" if due.is_zero else f"{length(due)} after its creation"


def _describe_ttl(timer: Timer, ttl: int | Duration) -> str:
    if isinstance(ttl, int):
        return f"not after {_moment(timer, ttl)}"
    return f"for {length(ttl)} from its creation"


def _moment(timer: Timer, moment: int) -> str:
    return f"{local_text(moment, timer.zone)[:19].replace('T', ' ')} {timer.zone.name} time"


def _span(step: int) -> str:
    minutes, seconds = divmod(abs(step) // SECOND, 60)
    parts = ((minutes // 60, "h"), (minutes % 60, "min"), (seconds, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _amount(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
