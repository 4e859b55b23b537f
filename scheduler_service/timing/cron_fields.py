"""Parses one field of a cron expression into its values, and combines the day fields (SPEC section 3)."""

import re
from collections.abc import Iterator
from typing import Literal, NoReturn

import msgspec

from scheduler_service.domain.errors import ExpressionError

FIRST_YEAR = 1970
YEARS = 230
"""Cron fires from 1970 to 2199."""

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class Rule(msgspec.Struct, frozen=True):
    """What a field may contain: numbers from `low` to `high`, `names` for them, steps up to `step`.

    Values repeat after `cycle` numbers; with `wraps` a range may run past the end. `marks` are the kinds of
    special values with their patterns. `alone` may not be in a list; `bare_slash`: `/5` means `*/5`.
    """

    name: str
    low: int
    high: int
    cycle: int
    step: int
    names: tuple[str, ...] = ()
    wraps: bool = True
    marks: tuple[tuple[str, str], ...] = ()
    alone: str | None = None
    bare_slash: bool = False
    hint: str = ""

    def bit(self, value: int) -> int:
        """The mask of one value; bit 0 is the lowest value (Sunday in day-of-week)."""
        return 1 << ((value - self.low) % self.cycle)


MarkKind = Literal["last", "weekday", "last_weekday", "nth", "final"]


class Mark(msgspec.Struct, frozen=True, gc=False):
    """A day that depends on the month.

    `last`: `value` days before the last day; `weekday`: the working day nearest to day `value`;
    `last_weekday`: the one nearest to `value` days before the last day; `nth`: the `nth` weekday `value`
    (0 is Sunday) of the month; `final`: the last weekday `value` of the month.
    """

    kind: MarkKind
    value: int
    nth: int = 0


class Field(msgspec.Struct, frozen=True, gc=False):
    """A parsed field or an item of its list: normal form, values as a mask, days that depend on the month.

    `open`: it restricts nothing (`*`, `*/1`); `stepped`: it has a step.
    """

    text: str
    mask: int = 0
    marks: tuple[Mark, ...] = ()
    open: bool = False
    stepped: bool = False


_RANGE = re.compile(r"(?P<first>[A-Z0-9]+)(?:-(?P<last>[A-Z0-9]+))?")
SATURDAY = 6
_WHOLE_WEEK = (1 << 7) - 1
_EVERY_SEVENTH_DAY = sum(1 << (7 * week) for week in range(5))


def read_field(rule: Rule, text: str, column: int) -> Field:
    """The parsed field `text`, which begins at `column` of the whole expression.

    Raises ExpressionError naming the field, the value and the remedy.
    """
    items = [_read_item(rule, item, at) for item, at in _split(text.upper(), column)]
    if len(items) > 1 and rule.alone in text.upper().split(","):
        _refuse(rule, column, f"{rule.alone!r} must stand alone, not in {_short(text)!r}; write {rule.high}")
    mask = 0
    for item in items:
        mask |= item.mask
    return Field(
        text=",".join(item.text for item in items),
        mask=mask,
        marks=tuple(dict.fromkeys(mark for item in items for mark in item.marks)),
        open=any(item.open for item in items),
        stepped=any(item.stepped for item in items),
    )


class Days(msgspec.Struct, frozen=True, gc=False):
    """The two day fields together.

    `dates`: bit 0 is the 1st; `week`: bit 0 is Sunday. `either`: a day fires if one of the fields has it
    (Unix, both restricted), else if both have it.
    """

    dates: int
    week: int
    marks: tuple[Mark, ...]
    week_marks: tuple[Mark, ...]
    either: bool

    def of_month(self, first: int, length: int) -> int:
        """The firing days as a mask, bit 0 the 1st, of a month that begins on weekday `first` (0: Sunday)."""
        dates = self.dates
        for mark in self.marks:
            dates |= _marked(mark, first, length)
        week = (((self.week | self.week << 7) >> first) & _WHOLE_WEEK) * _EVERY_SEVENTH_DAY
        for mark in self.week_marks:
            week |= _marked(mark, first, length)
        return (dates | week if self.either else dates & week) & ((1 << length) - 1)


def combine_days(dates: Field, week: Field, *, either: bool) -> Days:
    """The days of a day-of-month and a day-of-week field; `either` applies if both restrict."""
    return Days(
        dates=dates.mask,
        week=week.mask,
        marks=dates.marks,
        week_marks=week.marks,
        either=either and not dates.open and not week.open,
    )


def _split(text: str, column: int) -> Iterator[tuple[str, int]]:
    for item in text.split(","):
        yield item, column
        column += len(item) + 1


def _read_item(rule: Rule, item: str, column: int) -> Field:
    if not item:
        _refuse(rule, column, "a value is missing beside a comma; remove the comma or write the value")
    if rule.marks and ("L" in item or "W" in item or "#" in item):
        marked = _read_mark(rule, item, column)
        if marked is not None:
            return marked
    if "?" in item:
        _refuse(rule, column, f"{_short(item)!r}: '?' stands alone in a day field of Quartz; write '*'")
    body, slash, step_text = item.partition("/")
    step = _read_step(rule, item, step_text, column + len(body) + 1) if slash else 1
    if body == "*" or (not body and rule.bare_slash):
        return _every(rule, step, slash)
    found = _RANGE.fullmatch(body)
    if found is None:
        _refuse(rule, column, f"{_short(item)!r} cannot be read; {_allowed(rule)}")
    first, first_text = _read_value(rule, found["first"], column)
    if found["last"] is None:
        if not slash:
            return Field(text=first_text, mask=rule.bit(first))
        return Field(f"{first_text}/{step}", _mask(rule, first, rule.high, step), stepped=True)
    last, last_text = _read_value(rule, found["last"], column + found.start("last"))
    if last < first:
        if not rule.wraps:
            _refuse(rule, column, f"{first_text}-{last_text} runs backwards; write {last_text}-{first_text}")
        last += rule.cycle
    tail = f"/{step}" if slash else ""
    return Field(f"{first_text}-{last_text}{tail}", _mask(rule, first, last, step), stepped=bool(slash))


def _every(rule: Rule, step: int, slash: str) -> Field:
    mask = _mask(rule, rule.low, rule.low + rule.cycle - 1, step)
    return Field(f"*/{step}" if slash else "*", mask, open=step == 1, stepped=bool(slash))


def _mask(rule: Rule, first: int, last: int, step: int) -> int:
    """Every `step`-th value from `first` to `last`, by arithmetic, so that long lists stay cheap."""
    count = (last - first) // step + 1
    every = 1 if count == 1 else ((1 << step * count) - 1) // ((1 << step) - 1)
    values = every << (first - rule.low)
    return (values | values >> rule.cycle) & ((1 << rule.cycle) - 1)


def _read_step(rule: Rule, item: str, text: str, column: int) -> int:
    if not text.isdecimal():
        _refuse(rule, column, f"{_short(item)!r} has no step; write a number from 1 to {rule.step} after '/'")
    step = _number(text)
    if not 1 <= step <= rule.step:
        _refuse(rule, column, f"the step {_short(text)} is out of range; use 1 to {rule.step}")
    return step


def _read_value(rule: Rule, text: str, column: int) -> tuple[int, str]:
    if text in rule.names:
        return _named(rule, text), text
    if not text.isdecimal():
        _refuse(rule, column, f"{_short(text)!r} is not a value of this field; {_allowed(rule)}")
    value = _number(text)
    if not rule.low <= value <= rule.high:
        _refuse(rule, column, f"{_short(text)} is out of range; {_allowed(rule)}")
    return value, str(value)


def _named(rule: Rule, text: str) -> int:
    return rule.names.index(text) + rule.low


def _number(text: str) -> int:
    """The number, or one beyond every range if the text is very long."""
    return int(text) if len(text) <= 9 else 10**9


def _read_mark(rule: Rule, item: str, column: int) -> Field | None:
    for kind, pattern in rule.marks:
        found = re.fullmatch(pattern, item)
        if found is not None:
            return _READERS[kind](rule, found, column)
    return None


def _read_last(rule: Rule, found: re.Match[str], column: int) -> Field:
    back = _number(found["back"] or "0")
    if back > 30:
        _refuse(rule, column, f"{_short(found[0])} goes back more than 30 days; use L-1 to L-30")
    text = (f"L-{back}" if back else "L") + found["weekday"]
    return Field(text, marks=(Mark("last_weekday" if found["weekday"] else "last", back),))


def _read_weekday(rule: Rule, found: re.Match[str], column: int) -> Field:
    day, text = _read_value(rule, found["day"], column)
    return Field(f"{text}W", marks=(Mark("weekday", day),))


def _read_nth(rule: Rule, found: re.Match[str], column: int) -> Field:
    day, text = _read_value(rule, found["day"], column)
    nth = _number(found["nth"])
    if not 1 <= nth <= 5:
        _refuse(rule, column, f"{_short(found[0])} asks for weekday number {nth} of a month; use #1 to #5")
    return Field(f"{text}#{nth}", marks=(Mark("nth", (day - rule.low) % 7, nth),))


def _read_final(rule: Rule, found: re.Match[str], column: int) -> Field:
    if not found["day"]:
        # Quartz: alone in day-of-week, L is its last day, Saturday; `final` would be the last of the month.
        return Field("SAT", mask=rule.bit(rule.high))
    day, text = _read_value(rule, found["day"], column)
    return Field(f"{text}L", marks=(Mark("final", (day - rule.low) % 7),))


_READERS = {"last": _read_last, "weekday": _read_weekday, "nth": _read_nth, "final": _read_final}


def _allowed(rule: Rule) -> str:
    numbers = f"use {rule.low} to {rule.high}"
    names = f" or {rule.names[0]} to {rule.names[-1]}" if rule.names else ""
    return f"{numbers}{names}{rule.hint}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"


def _refuse(rule: Rule, column: int, message: str) -> NoReturn:
    raise ExpressionError(f"{rule.name}: {message}", column=column)


def _marked(mark: Mark, first: int, length: int) -> int:
    match mark.kind:
        case "last":
            day = length - mark.value
        case "weekday":
            day = _nearest_weekday(mark.value, first, length)
        case "last_weekday":
            day = _nearest_weekday(length - mark.value, first, length)
        case "nth":
            day = 1 + (mark.value - first) % 7 + 7 * (mark.nth - 1)
        case _:  # final
            day = length - (first + length - 1 - mark.value) % 7
    return 1 << (day - 1) if 1 <= day <= length else 0


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """The working day nearest to `day` in the same month; 0: the month has no such day."""
    if not 1 <= day <= length:
        return 0
    weekday = (first + day - 1) % 7
    if weekday == SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
