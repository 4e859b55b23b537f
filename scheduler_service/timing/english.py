"""Timers as sentences in English, and the pattern of other languages (SPEC section 3)."""

import re
from collections.abc import Mapping

from scheduler_service.domain.moments import SECOND
from scheduler_service.timing.calendar_days import FREE, SKIP, WORK
from scheduler_service.timing.cron_english import CronEnglish
from scheduler_service.timing.durations import Duration, amounts
from scheduler_service.timing.timer import Timer, TimerKind
from scheduler_service.timing.times import local_text
from scheduler_service.timing.zones import Zone, step_of_day


class English:
    """Sentences in English, without a full stop. Another language is a class with other words.

    What stands in braces is filled in. No method raises.
    """

    cron = CronEnglish()
    comma = ", "
    clock_units = ("h", "min", "s")
    nothing = "0 seconds"
    moment = "{} {} time"
    at, at_once, after_creation = "at {}", "at once", "{} after its creation"
    triggered, once, once_at, once_now = (
        "Only when it is triggered",
        "Once, {}",
        "Once, at {}",
        "Once, at once",
    )
    each, every, after_end = "Every {}, {}{}", "Every {}, {}{}", "{} after each end, {}{}"
    first, counted = "first {}", "counted from its creation"
    times = ", {} times in all"
    not_before, not_after = "not before {}", "not after {}"
    from_creation, jitter = "for {} from its creation", "each up to {} later"
    back, forward = "clocks go back by {} this day", "clocks go forward by {} this day"
    cron_in_zone = "{}, {} time"
    days_of: Mapping[str, str] = {WORK: "on working days of {}", FREE: "on free days of {}"}
    every_day = re.compile(r"(?<= )every day(?=, \S+ time$)")
    on_days_alone, otherwise = "{}, {} alone", "{}, else on the {} such day"
    otherwise_days: Mapping[str, str] = {"next": "next", "previous": "previous"}

    def describe(self, timer: Timer) -> str:
        """The timer as one sentence."""
        parts = [self._on_days(timer, self._describe_kind(timer))]
        if timer.kind is TimerKind.EXTERNAL:
            return parts[0]
        if timer.start_at is not None and timer.kind is not TimerKind.ONE_TIME:
            parts.append(self.not_before.format(self._moment(timer, timer.start_at)))
        if timer.end_at is not None:
            parts.append(self.not_after.format(self._moment(timer, timer.end_at)))
        if isinstance(timer.ttl, int):
            parts.append(self.not_after.format(self._moment(timer, timer.ttl)))
        elif timer.ttl is not None:
            parts.append(self.from_creation.format(self.length(timer.ttl)))
        if timer.jitter:
            parts.append(self.jitter.format(self.length(Duration(ms=timer.jitter))))
        return self.comma.join(parts)

    def note(self, zone: Zone, moment: int) -> str | None:
        """A note if clocks change on the local day of `moment` (UTC ms), else None."""
        step = step_of_day(zone, moment)
        if step is None:
            return None
        minutes, seconds = divmod(abs(step) // SECOND, 60)
        parts = zip((minutes // 60, minutes % 60, seconds), self.clock_units, strict=True)
        by = " ".join(f"{count} {unit}" for count, unit in parts if count)
        return (self.forward if step > 0 else self.back).format(by)

    def length(self, duration: Duration) -> str:
        """The duration in counts of its units, the largest first, as in `2 hours 30 minutes`."""
        parts = [f"{count} {self._unit(count, name)}" for count, name in amounts(duration)]
        return " ".join(parts) or self.nothing

    def _unit(self, count: int, name: str) -> str:
        return name if count == 1 else f"{name}s"

    def _moment(self, timer: Timer, moment: int) -> str:
        return self.moment.format(local_text(moment, timer.zone)[:19].replace("T", " "), timer.zone.name)

    def _describe_kind(self, timer: Timer) -> str:
        match timer.kind:
            case TimerKind.EXTERNAL:
                return self.triggered
            case TimerKind.ONE_TIME:
                start = timer.start_at
                return self.once_now if start is None else self.once_at.format(self._moment(timer, start))
            case TimerKind.CRON:
                assert timer.cron is not None
                return self.cron_in_zone.format(self.cron.describe(timer.cron), timer.zone.name)
            case _:
                return self._describe_timing(timer)

    def _on_days(self, timer: Timer, words: str) -> str:
        rule = timer.rule
        if rule is None:
            return words
        days = self.days_of[rule.days].format(rule.name)
        words, found = self.every_day.subn(lambda _: days, words)
        words = words if found else self.on_days_alone.format(words, days)
        return (
            words
            if rule.otherwise == SKIP
            else self.otherwise.format(words, self.otherwise_days[rule.otherwise])
        )

    def _describe_timing(self, timer: Timer) -> str:
        assert timer.period is not None
        assert timer.due is not None
        first = self._describe_due(timer, timer.due)
        if timer.repeats == 1:
            return self.once.format(first)
        is_later = first == self.at_once and timer.start_at is not None
        first = self.counted if is_later else self.first.format(first)
        times = "" if timer.repeats is None else self.times.format(timer.repeats)
        if timer.from_end:
            return self.after_end.format(self.length(timer.period), first, times)
        match amounts(timer.period):
            case [(1, name)]:
                return self.each.format(self._unit(1, name), first, times)
            case _:
                return self.every.format(self.length(timer.period), first, times)

    def _describe_due(self, timer: Timer, due: int | Duration) -> str:
        if isinstance(due, int):
            return self.at.format(self._moment(timer, due))
        return self.at_once if due.is_zero else self.after_creation.format(self.length(due))
