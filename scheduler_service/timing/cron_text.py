"""Parses a cron expression: macros, dialects and the rule for the two day fields (SPEC section 3)."""

import re
from typing import Literal

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.timing.cron_fields import (
    FIRST_YEAR,
    MONTHS,
    WEEKDAYS,
    YEARS,
    Field,
    Rule,
    combine_days,
    read_field,
)
from scheduler_service.timing.cron_pattern import CronPattern

Dialect = Literal["quartz", "unix"]

TEXT_MAX = 1_000
"""How many characters an expression may have."""

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

ZONE_IN_FRONT = re.compile(r"\s*(?:CRON_)?TZ=(\S*)\s*", re.IGNORECASE)
"""As crontabs and other schedulers write it."""

_LAST_DAYS = r"L(?:-(?P<back>[0-9]+))?(?P<weekday>W?)"
_NTH = r"(?P<day>[A-Z0-9]+)#(?P<nth>[0-9]+)"

_SECOND = Rule("second", 0, 59, 60, 59, bare_slash=True)
_MINUTE = Rule("minute", 0, 59, 60, 59, bare_slash=True)
_HOUR = Rule("hour", 0, 23, 24, 23, bare_slash=True)
_DATE = Rule(
    "day-of-month",
    1,
    31,
    31,
    31,
    marks=(("last", _LAST_DAYS), ("weekday", r"(?P<day>[0-9]+)W")),
    bare_slash=True,
    hint=", L, L-3, LW or 15W",
)
_MONTH = Rule("month", 1, 12, 12, 12, names=MONTHS, bare_slash=True)
_WEEKDAY = Rule(
    "day-of-week",
    1,
    7,
    7,
    7,
    names=WEEKDAYS,
    marks=(("nth", _NTH), ("final", r"(?P<day>[A-Z0-9]*)L")),
    alone="L",
    bare_slash=True,
    hint=", 1 being Sunday, as in 6L or 6#3",
)
_YEAR = Rule("year", FIRST_YEAR, FIRST_YEAR + YEARS - 1, YEARS, YEARS - 1, wraps=False, bare_slash=True)

# Of the special values, both common evaluators of Unix cron have only L (last day) and 5#2 (second Friday).
_LONG_STEP = 9_999
_UNIX = (
    Rule("minute", 0, 59, 60, _LONG_STEP),
    Rule("hour", 0, 23, 24, _LONG_STEP),
    Rule(
        "day-of-month",
        1,
        31,
        31,
        _LONG_STEP,
        marks=(("last", r"L(?P<back>)(?P<weekday>)"),),
        hint=" or L; L-3, LW and 15W need the six fields of Quartz",
    ),
    Rule("month", 1, 12, 12, _LONG_STEP, names=MONTHS),
    Rule(
        "day-of-week",
        0,
        7,
        7,
        _LONG_STEP,
        names=WEEKDAYS,
        marks=(("nth", _NTH),),
        hint=", 0 and 7 being Sunday, as in 5 or 5#3; 5L needs the six fields of Quartz",
    ),
)

_WHOLE = ("?", "*")
_EVERY_DATE = Field("*", (1 << 31) - 1, (), open=True, stepped=False)
_EVERY_WEEKDAY = Field("*", (1 << 7) - 1, (), open=True, stepped=False)


class Reading(msgspec.Struct, frozen=True, gc=False):
    """A parsed expression: its dialect, its normal form, its local times.

    `recurring`: second, minute or hour has `*` or a step, so that it fires in both passes of an hour that
    occurs twice.
    """

    dialect: Dialect
    normal_form: str
    pattern: CronPattern
    recurring: bool


def read_expression(text: str) -> Reading:
    """Reads a cron expression or a macro. Raises ExpressionError; does not check whether it ever fires."""
    _check_characters(text)
    zone = ZONE_IN_FRONT.match(text)
    if zone is not None:
        raise ExpressionError(
            f"a cron expression has no time zone, as {zone[0].strip()[:60]!r}; give it as timezone"
        )
    pieces = [(found[0], found.start()) for found in re.finditer(r"[^ \t\r\n]+", text)]
    if pieces and pieces[0][0].startswith("@"):
        pieces = _expand(text, pieces)
    match len(pieces):
        case 5:
            return _read_unix(pieces)
        case 6 | 7:
            return _read_quartz(pieces)
    raise ExpressionError(
        "a cron expression has 5 fields (minute hour day-of-month month day-of-week), or 6 with the second "
        f"first, or 7 with the year last; {text.strip()[:60]!r} has {len(pieces)}"
    )


def _check_characters(text: str) -> None:
    if len(text) > TEXT_MAX:
        raise ExpressionError(f"a cron expression has at most {TEXT_MAX} characters, this one {len(text)}")
    for column, character in enumerate("" if text.isascii() else text):
        if not character.isascii():
            raise ExpressionError(
                f"{character!r} is not allowed in a cron expression; use ASCII digits, letters and signs",
                column=column,
            )


def _expand(text: str, pieces: list[tuple[str, int]]) -> list[tuple[str, int]]:
    name, column = pieces[0]
    expansion = MACROS.get(name.lower())
    if expansion is None or len(pieces) > 1:
        known = ", ".join(MACROS)
        raise ExpressionError(f"{text.strip()[:60]!r} is not a macro; use {known}", column=column)
    return [(piece, column) for piece in expansion.split()]


def _read_unix(pieces: list[tuple[str, int]]) -> Reading:
    fields = [read_field(rule, *piece) for rule, piece in zip(_UNIX, pieces, strict=True)]
    minute, hour, dates, month, week = fields
    return Reading(
        dialect="unix",
        normal_form=" ".join(field.text for field in fields),
        pattern=CronPattern(
            seconds=1,
            minutes=minute.mask,
            hours=hour.mask,
            months=month.mask,
            years=(1 << YEARS) - 1,
            days=combine_days(dates, week, either=True),
        ),
        recurring=_recurs(minute) or _recurs(hour),
    )


def _read_quartz(pieces: list[tuple[str, int]]) -> Reading:
    dates, week = _read_days(pieces[3], pieces[5])
    others = [*pieces[:3], pieces[4], *(pieces[6:] or [("*", 0)])]
    rules = (_SECOND, _MINUTE, _HOUR, _MONTH, _YEAR)
    second, minute, hour, month, year = (
        read_field(rule, *one) for rule, one in zip(rules, others, strict=True)
    )
    day_texts = (dates.text, "?") if week.open else ("?", week.text)
    texts = [second.text, minute.text, hour.text, day_texts[0], month.text, day_texts[1]]
    if year.text != "*":
        texts.append(year.text)
    return Reading(
        dialect="quartz",
        normal_form=" ".join(texts),
        pattern=CronPattern(
            seconds=second.mask,
            minutes=minute.mask,
            hours=hour.mask,
            months=month.mask,
            years=year.mask,
            days=combine_days(dates, week, either=False),
        ),
        recurring=_recurs(second) or _recurs(minute) or _recurs(hour),
    )


def _read_days(date_piece: tuple[str, int], week_piece: tuple[str, int]) -> tuple[Field, Field]:
    """The two day fields of Quartz, of which at most one may restrict; `*` beside the other means `?`."""
    asked_dates, asked_week = date_piece[0], week_piece[0]
    if asked_dates == asked_week == "?":
        raise ExpressionError(
            "day-of-month and day-of-week: '?' in both leaves no days; write '*' in day-of-month",
            column=date_piece[1],
        )
    dates = _EVERY_DATE if asked_dates in _WHOLE else read_field(_DATE, *date_piece)
    week = _EVERY_WEEKDAY if asked_week in _WHOLE else read_field(_WEEKDAY, *week_piece)
    if asked_dates not in _WHOLE and asked_week not in _WHOLE:
        raise ExpressionError(
            f"day-of-month and day-of-week: both are given ({asked_dates[:40]!r} and {asked_week[:40]!r}); "
            "write '?' in one of them",
            column=week_piece[1],
        )
    return dates, week


def _recurs(field: Field) -> bool:
    return field.stepped or field.open
