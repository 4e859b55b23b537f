"""The texts of a calendar: dates and ranges of them (SPEC section 3, Calendars)."""

import re
from collections.abc import Iterable, Iterator
from datetime import date

from scheduler_service.domain.errors import ExpressionError, Problem
from scheduler_service.timing.calendar_days import LAST_DAY, DaySpan

MOST_DAYS = 366
"""A range has so many days at most."""
_EPOCH = date(1970, 1, 1).toordinal()
_SPAN = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:/([0-9]{4}-[0-9]{2}-[0-9]{2}))?")


def read_span(text: str) -> DaySpan:
    """The days of `2026-10-01` or `2026-10-01/2026-10-07`. Raises ExpressionError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ExpressionError(f"{text[:80]!r} is no date; write 2026-10-01, or 2026-10-01/2026-10-07")
    first = _read_day(found[1])
    last = first if found[2] is None else _read_day(found[2])
    if not 0 <= last - first < MOST_DAYS:
        raise ExpressionError(f"{text!r} has no or more than {MOST_DAYS} days; give the earlier one first")
    return DaySpan(first, last)


def read_spans(texts: Iterable[str], pointer: str, problems: list[Problem]) -> list[DaySpan]:
    """All spans; what is wrong joins `problems`, each with its pointer below `pointer`."""
    found = []
    for index, text in enumerate(texts):
        try:
            found.append(read_span(text))
        except ExpressionError as error:
            problems.append(error.as_problem(f"{pointer}/{index}"))
    return found


def day_set(spans: Iterable[DaySpan]) -> set[int]:
    """All days of these spans."""
    return {day for span in spans for day in range(span.first, span.last + 1)}


def write_day(day: int) -> str:
    """The date of a day."""
    return date.fromordinal(day + _EPOCH).isoformat()


def day_of(found: date) -> int:
    """The day of a date."""
    return found.toordinal() - _EPOCH


def write_spans(days: Iterable[int]) -> Iterator[str]:
    """Days as dates and ranges, in order."""
    first: int | None = None
    last = 0
    for day in sorted(set(days)):
        if first is not None and day != last + 1:
            yield _write_span(first, last)
            first = None
        first, last = day if first is None else first, day
    if first is not None:
        yield _write_span(first, last)


def _write_span(first: int, last: int) -> str:
    return write_day(first) if first == last else f"{write_day(first)}/{write_day(last)}"


def _read_day(text: str) -> int:
    try:
        day = day_of(date.fromisoformat(text))
    except ValueError:
        raise ExpressionError(f"{text!r} is not in the calendar") from None
    if not 0 <= day <= LAST_DAY:
        raise ExpressionError(f"{text!r} is not within 1970 and 2199")
    return day
