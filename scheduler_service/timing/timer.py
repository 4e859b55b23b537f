"""Compiles a timer from its definition and checks all that does not depend on a moment."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

import msgspec

from client_sdk.models import Misfire
from scheduler_service.domain.errors import DefinitionError, ExpressionError, Problem
from scheduler_service.domain.moments import DAY, SECOND
from scheduler_service.timing.calendar_days import MOST_A_DAY, SKIP, Calendar, DayRule
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.cron_text import MACROS
from scheduler_service.timing.cron_warnings import find_warnings
from scheduler_service.timing.durations import Duration, mean_length, parse_duration, parse_repeats
from scheduler_service.timing.times import FORMS, advise_delay, looks_like_time, parse_time, read_time
from scheduler_service.timing.zones import Zone, load_zone

EXTERNAL = "external"
PLANNED, AFTER_END = "start", "end"
"""From where `periodFrom` counts the period: from the planned moment, or from the end of an execution."""
POLICIES = ("fire_once", "skip", "fire_all")
CAUGHT_UP_MAX = 10_000
_USUAL = Misfire()

_LIKE_A_DURATION = re.compile(r"P|[+-]?[0-9.]+ ?(?!am|pm|t[0-9])[a-zµμ]", re.IGNORECASE)
_MONTHS_ALONE = re.compile(r"(?:R[0-9]+/)?P([1-9][0-9]{0,3})M")
_ONE_FIELD = re.compile(r"\*(?:/[0-9]{1,2})?")

T = TypeVar("T")


class TimerKind(StrEnum):
    """When a job fires (SPEC section 3)."""

    ONE_TIME = "one_time"
    TIMING = "timing"
    CRON = "cron"
    EXTERNAL = "external"


RECURRING = (TimerKind.TIMING, TimerKind.CRON)
"""The kinds that fire again and again; the others are triggered, `one_time` by its creation."""


class TimerText(msgspec.Struct, frozen=True, kw_only=True):
    """`timer` of a definition as posted; `misfire_grace` and `jitter` in ms.

    `due_time` None: empty. The wire model fills in the `dueTime` of a `period` alone.
    """

    due_time: str | None = None
    period: str | None = None
    ttl: str | None = None
    timezone: str | None = None
    start_at: str | None = None
    end_at: str | None = None
    misfire_policy: str = _USUAL.policy
    misfire_grace: int = round(_USUAL.grace_seconds * SECOND)
    misfire_limit: int = _USUAL.limit
    jitter: int = 0
    period_from: str = PLANNED
    calendar: DayRule | None = None


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled timer. Moments and lengths in ms.

    Only cron has `cron`, only timing has `due` and `period`. `due` and `ttl` are moments, or delays from the
    cursor's anchor; `due_local` is the local time of a moment as it was written, which clocks may skip. A
    `period` of 0 fires once and has `repeats` 1; `repeats` None: without end. `from_end`: the period is a
    fixed delay after the end of an execution. `rule`: it fires on days of a calendar alone; until
    `bind_calendar` it has no moment. `warnings` are those that need no moment; `warnings_at` has the others.
    `trouble`: why its moments cannot be computed any more (`stand_still`); empty: they can.
    """

    kind: TimerKind
    zone: Zone
    cron: Cron | None = None
    due: int | Duration | None = None
    due_local: int | None = None
    period: Duration | None = None
    repeats: int | None = None
    ttl: int | Duration | None = None
    start_at: int | None = None
    end_at: int | None = None
    misfire_policy: str
    misfire_grace: int
    misfire_limit: int
    jitter: int = 0
    from_end: bool = False
    rule: DayRule | None = None
    warnings: tuple[Problem, ...] = ()
    trouble: str = ""


def compile_timer(text: TimerText | None, *, default_zone: str) -> Timer:
    """The timer that `text` describes; None: `one_time`.

    Raises DefinitionError with all problems, their pointers relative to the timer ("/period").
    """
    reader = _Reader(text or TimerText(), default_zone)
    timer = reader.read()
    if reader.problems:
        raise DefinitionError(reader.problems)
    assert timer is not None
    return timer


def stand_still(text: TimerText | None, trouble: str) -> Timer:
    """A timer that was accepted and cannot be computed now: it keeps its kind, and has no moment."""
    text = text or TimerText()
    return Timer(
        kind=kind_of(text),
        zone=load_zone("UTC"),
        misfire_policy=text.misfire_policy,
        misfire_grace=text.misfire_grace,
        misfire_limit=text.misfire_limit,
        trouble=trouble,
    )


def bind_calendar(timer: Timer, calendar: Calendar | None) -> Timer:
    """A timer whose rule names a calendar, with that; None: there is none, and it stands still."""
    assert timer.rule is not None, "only a timer with a rule has a calendar"
    zone = timer.zone if calendar is None or calendar.zone is None else calendar.zone
    rule = msgspec.structs.replace(timer.rule, calendar=calendar, zone=zone)
    return msgspec.structs.replace(timer, rule=rule, trouble="" if calendar else missing_calendar(rule.name))


def missing_calendar(name: str) -> str:
    """What is said of a calendar that there is not."""
    return f"there is no calendar {name!r}; store it with PUT /calendars/{name}"


def is_period(text: str) -> bool:
    """Whether `text` is a `period`: a duration, a repetition, cron, or `external`."""
    try:
        compile_timer(TimerText(due_time="0s", period=text), default_zone="UTC")
    except DefinitionError:
        return False
    return True


def kind_of(text: TimerText) -> TimerKind:
    """The kind that follows from `dueTime` and `period`, whether they can be read or not."""
    period = text.period or ""
    # `external` and cron ignore `dueTime`: its absence does not change the kind.
    if period == EXTERNAL:
        return TimerKind.EXTERNAL
    if period.startswith("@") or len(period.split()) > 1:
        return TimerKind.CRON
    if _is_empty(text.due_time) or _is_empty(text.period):
        return TimerKind.ONE_TIME
    return TimerKind.TIMING


class _Reader:
    """Reads the members one by one and collects their problems."""

    def __init__(self, text: TimerText, default_zone: str) -> None:
        self.text = text
        self.default_zone = default_zone
        self.problems: list[Problem] = []

    def read(self) -> Timer | None:
        """The timer, valid only without problems; None: the zone is wrong."""
        text = self.text
        self._check_numbers()
        zone = self._try(
            "/timezone", load_zone, self.default_zone if text.timezone is None else text.timezone
        )
        if zone is None:
            return None
        kind = kind_of(text)
        timer = Timer(
            kind=kind,
            zone=zone,
            ttl=self._moment_or_duration("/ttl", text.ttl, zone),
            start_at=self._moment("/startAt", text.start_at, zone),
            end_at=self._moment("/endAt", text.end_at, zone),
            misfire_policy=text.misfire_policy,
            misfire_grace=text.misfire_grace,
            misfire_limit=text.misfire_limit,
            jitter=text.jitter,
            from_end=text.period_from == AFTER_END,
            rule=text.calendar,
            trouble=missing_calendar(text.calendar.name) if text.calendar else "",
            warnings=tuple(_warn(kind, text)),
        )
        self._check_order(timer)
        timer = self._complete(timer, text.due_time or "", text.period or "")
        if timer.from_end:
            self._check_delay(timer)
        if timer.rule is not None:
            self._check_rule(timer, timer.rule)
        return timer

    def _complete(self, timer: Timer, due_time: str, period: str) -> Timer:
        """The timer with the members of its kind."""
        match timer.kind:
            case TimerKind.CRON:
                cron = self._try("/period", parse_cron, period)
                found = () if cron is None else find_warnings(period, cron)
                warnings = (Problem("/period", code, message) for code, message in found)
                return msgspec.structs.replace(timer, cron=cron, warnings=(*timer.warnings, *warnings))
            case TimerKind.TIMING:
                due = self._moment_or_duration("/dueTime", due_time, timer.zone)
                local = read_time(due_time, timer.zone)[1] if isinstance(due, int) else None
                repeats, length = self._period(period)
                return msgspec.structs.replace(
                    timer, due=due, due_local=local, period=length, repeats=repeats
                )
            case TimerKind.ONE_TIME:
                if not _is_empty(period):
                    self._period(period)  # ignored, and refused all the same where it is none
                return timer
            case _:
                return timer

    def _period(self, period: str) -> tuple[int | None, Duration | None]:
        repeats, length = self._try("/period", _parse_period, period) or (None, None)
        if length is None or not length.is_zero:
            return repeats, length
        if repeats is not None:
            self._refuse("/period", f"{period!r} repeats without a pause; give a period, or 0s to fire once")
        return 1, length

    def _moment_or_duration(self, pointer: str, text: str | None, zone: Zone) -> int | Duration | None:
        if text is None:
            return None
        if looks_like_time(text):
            return self._moment(pointer, text, zone)
        return self._try(pointer, _parse_delay, text)

    def _moment(self, pointer: str, text: str | None, zone: Zone) -> int | None:
        return None if text is None else self._try(pointer, lambda value: parse_time(value, zone), text)

    def _check_numbers(self) -> None:
        text = self.text
        if text.misfire_policy not in POLICIES:
            names = ", ".join(POLICIES)
            self._refuse(
                "/misfire/policy", f"{text.misfire_policy!r} is not a misfire policy; give one of {names}"
            )
        if text.misfire_grace < 0:
            self._refuse("/misfire/graceSeconds", "graceSeconds is negative; give 0 or more")
        if not 1 <= text.misfire_limit <= CAUGHT_UP_MAX:
            message = f"the misfire limit {text.misfire_limit} is not possible; give 1 to {CAUGHT_UP_MAX}"
            self._refuse("/misfire/limit", message)
        if text.jitter < 0:
            self._refuse("/jitterSeconds", "jitterSeconds is negative; give 0 or more")

    def _check_order(self, timer: Timer) -> None:
        if timer.start_at is not None and timer.end_at is not None and timer.end_at < timer.start_at:
            self._refuse("/endAt", "endAt is before startAt; give a later one")

    def _check_delay(self, timer: Timer) -> None:
        if timer.kind is not TimerKind.TIMING:
            message = f"periodFrom end needs a duration as period, and the timer is {timer.kind}; give 5m"
            self._refuse("/periodFrom", message)
        elif timer.period is not None and timer.period.is_zero:
            self._refuse("/periodFrom", "periodFrom end needs a period; 0s fires once, so leave it out")

    def _check_rule(self, timer: Timer, rule: DayRule) -> None:
        if timer.kind not in RECURRING:
            self._refuse("/calendar", f"a calendar is for timing and cron, and the timer is {timer.kind}")
        elif timer.from_end:
            self._refuse("/calendar", "periodFrom end has no calendar: its moments follow from executions")
        elif rule.otherwise != SKIP and _counts_a_day(timer) > MOST_A_DAY:
            message = (
                f"otherwise {rule.otherwise!r} moves at most {MOST_A_DAY} moments of a day, and this timer "
                "has more; use skip, or a longer period"
            )
            self._refuse("/calendar/otherwise", message)

    def _try(self, pointer: str, parse: Callable[[str], T], text: str) -> T | None:
        try:
            return parse(text)
        except ExpressionError as error:
            self.problems.append(error.as_problem(pointer))
            return None

    def _refuse(self, pointer: str, message: str, code: str = "invalid") -> None:
        self.problems.append(Problem(pointer, code, message))


def _counts_a_day(timer: Timer) -> int:
    """How many moments a timer may have in one day."""
    if timer.cron is not None:
        pattern = timer.cron.pattern
        return pattern.seconds.bit_count() * pattern.minutes.bit_count() * pattern.hours.bit_count()
    length = 0 if timer.period is None else mean_length(timer.period)
    return DAY // length if length else 1


def _parse_delay(text: str) -> Duration:
    """A duration; what is none may also be meant as a moment, unless it has a number with a unit."""
    try:
        return parse_duration(text)
    except ExpressionError as error:
        if _LIKE_A_DURATION.match(text):
            raise
        message = f"{text[:80]!r} is neither a moment nor a duration; write {FORMS}, or a delay like 2h30m"
        raise ExpressionError(message, advice=advise_delay(text) or error.advice) from error


def _parse_period(text: str) -> tuple[int | None, Duration]:
    try:
        return parse_repeats(text)
    except ExpressionError as error:
        if text[:1] in {"P", "R"} or text[:1].isdigit():
            raise
        message = f"{text[:80]!r} is not a period; give 5m, PT5M, R4/PT3S, a cron expression or external"
        raise ExpressionError(message, advice=_advise_period(text) or error.advice) from error


def _advise_period(text: str) -> str:
    """A suggestion for a period that names a kind, which follows from `dueTime` and `period`."""
    match text.strip().lower():
        case "external":
            return "write it 'external'"
        case word if f"@{word}" in MACROS:
            return f"write '@{word}'"
        case word if _ONE_FIELD.fullmatch(word):
            return f"a cron expression has all its fields: write '{word} * * * *'"
        case word if word.startswith("at("):
            return "one moment is a dueTime, with the period '0s'"
        case "timing" | "timeing" | "cron" | "one_time":
            return "the kind follows from dueTime and period: 0s fires once, 5m every five minutes"
        case _:
            return ""


def _warn(kind: TimerKind, text: TimerText) -> list[Problem]:
    """Warnings about ignored members, and about months that may be meant as minutes."""
    warnings = [
        Problem(pointer, "months", f"{given!r} is {count} months; {count} minutes are 'PT{count}M'")
        for pointer, given in (("/dueTime", text.due_time), ("/period", text.period), ("/ttl", text.ttl))
        if (found := _MONTHS_ALONE.fullmatch(str(given))) is not None
        and 12 % (count := int(found[1]))
        and count % 12  # not of a year that is divided, or of years
    ]
    if not _is_empty(text.due_time) and kind is not TimerKind.TIMING and not _is_ignorable(kind, text):
        remedy = "give a period as well" if kind is TimerKind.ONE_TIME else "write 0s"
        message = f"dueTime {str(text.due_time)[:80]!r} is ignored: the timer is {kind}; {remedy}"
        warnings.append(Problem("/dueTime", "due_time_ignored", message))
    if kind is TimerKind.ONE_TIME and not _is_empty(text.period):
        message = (
            f"period {str(text.period)[:80]!r} is ignored: dueTime is empty, so the job fires once; "
            "write dueTime 0s, or leave dueTime out"
        )
        warnings.append(Problem("/period", "period_ignored", message))
    return warnings


def _is_ignorable(kind: TimerKind, text: TimerText) -> bool:
    """Whether `dueTime` is 0, which is usual for cron and external."""
    if kind is TimerKind.ONE_TIME:
        return False
    try:
        return parse_duration(text.due_time or "").is_zero
    except ExpressionError:
        return False


def _is_empty(text: str | None) -> bool:
    return text is None or not text.strip()
