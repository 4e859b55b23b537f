"""Warnings about a valid cron expression that is probably a mistake."""

import re
from collections.abc import Iterator

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.cron_english import CronEnglish
from scheduler_service.timing.cron_fields import WEEKDAYS

_NUMBER = re.compile(r"[0-9]+")
_STEPPED = re.compile(r"\*(/[0-9]+)?")
_LENGTHS = (60, 24, 31, 12, 7)
"""How many values the five fields of Unix cron have."""

_WEEKDAY = re.compile(r"(?<![0-9A-Za-z/#])[1-7](?=[Ll]?(?:[-,#/]|$))")
_WHOLE_WEEK = "1-7"
_OPEN = ("*", "?")


def find_warnings(text: str, cron: Cron) -> Iterator[tuple[str, str]]:
    """(code, message) of each probable mistake in `text`, from which `cron` was read.

    `second_first`: six fields that look as if the minute came first. `every_second`: `*` as the second, with
    a minute or hour given. `weekday_numbers`: days of the week as numbers of Quartz. `step_too_long`: a step
    that leaves only one value in its field.
    """
    fields = text.split()
    if len(fields) == 6 and _looks_like_five(fields):
        yield from _read_as_five(fields, cron)
    elif len(fields) >= 6 and fields[0] == "*" and fields[1:3] != ["*", "*"]:
        yield "every_second", f"it fires {_lower(cron)}; write 0 as the second to fire once a minute"
    elif len(fields) == 5:
        yield from _long_steps(fields, cron)
    if len(fields) >= 6:
        yield from _numbered_weekdays(fields[5])


def _looks_like_five(fields: list[str]) -> bool:
    """Whether six fields look like five with a year or a blank too many: in Quartz they are unusual."""
    second, minute, hour, dates, month, week = fields
    if hour != "*" or dates not in _OPEN or week not in _OPEN:
        return False
    # `?` is written by people who mean six fields; 5 and 30 are common minutes, 9 is rather an hour.
    rhythm = _STEPPED.fullmatch(second) is not None and minute == "*" and "?" not in fields
    is_an_hour = _NUMBER.fullmatch(minute) is not None and 0 < int(minute) < 24 and int(minute) % 5 != 0
    return rhythm or (_NUMBER.fullmatch(second) is not None and (is_an_hour or month != "*"))


def _read_as_five(fields: list[str], cron: Cron) -> Iterator[tuple[str, str]]:
    five = " ".join(fields[:5]).replace("?", "*")
    try:
        meant = parse_cron(five)
    except ExpressionError:
        return
    yield (
        "second_first",
        f"six fields begin with the second: it fires {_lower(cron)}; to fire {_lower(meant)} write {five!r}",
    )


def _numbered_weekdays(week: str) -> Iterator[tuple[str, str]]:
    """In Unix cron 1 is Monday, so that 1-5 is often meant as Monday to Friday."""
    read = _WEEKDAY.sub(lambda found: WEEKDAYS[int(found[0]) - 1], week)
    if read != week and week != _WHOLE_WEEK:
        meant = _WEEKDAY.sub(lambda found: WEEKDAYS[int(found[0]) % 7], week)
        text = f"six fields count the days of the week from Sunday, 1: {week!r} is {read!r}, not {meant!r}"
        yield "weekday_numbers", f"{text}; write names, which are never mistaken"


def _long_steps(fields: list[str], cron: Cron) -> Iterator[tuple[str, str]]:
    for field, length in zip(fields, _LENGTHS, strict=True):
        start, slash, step = field.partition("/")
        if slash and start == "*" and int(step) >= length:
            yield (
                "step_too_long",
                f"the step of {field!r} is longer than its field: it fires {_lower(cron)}; "
                "for a longer pause give a duration as period, as in 90m or P40D",
            )


def _lower(cron: Cron) -> str:
    words = CronEnglish().describe(cron)
    return words[0].lower() + words[1:]
