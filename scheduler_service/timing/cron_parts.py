"""The parts of a cron expression from which sentences are made, in whichever language."""

import re
from typing import Literal

import msgspec

from scheduler_service.timing.cron import Cron

Unit = Literal["hour", "minute", "second"]
ITEM = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")
"""An item of a list: its first value or `*`, its last one, its step."""
_FEW_CLOCKS = 6
"""So many times of a day are told one by one."""


class CronTexts(msgspec.Struct, frozen=True, gc=False):
    """The fields of a normal form; a missing second is 0, a missing year `*`."""

    second: str
    minute: str
    hour: str
    date: str
    month: str
    weekday: str
    year: str
    sunday: int


def split(cron: Cron) -> CronTexts:
    """The fields; `sunday` is the number of Sunday in this dialect."""
    fields = cron.normal_form.split()
    if cron.dialect == "unix":
        fields = ["0", *fields]
    second, minute, hour, date, month, weekday = fields[:6]
    year = fields[6] if len(fields) == 7 else "*"
    sunday = 0 if cron.dialect == "unix" else 1
    return CronTexts(second, minute, hour, date, month, weekday, year, sunday)


def clocks(texts: CronTexts) -> list[str]:
    """The times of a day, as `09:00` or `09:00:01`; empty: too many, or a repetition, which `cadence` has."""
    hours, minutes = numbers(texts.hour), numbers(texts.minute)
    if not 1 <= len(hours) * len(minutes) <= _FEW_CLOCKS or not texts.second.isdecimal():
        return []
    seconds = f":{int(texts.second):02}" if texts.second != "0" else ""
    return [f"{hour:02}:{minute:02}{seconds}" for hour in hours for minute in minutes]


def cadence(texts: CronTexts) -> list[tuple[Unit, str]]:
    """What is worth saying of the repetition within a day: unit and `even` field, the finest first."""
    second, minute, hour = even(texts.second, 60), even(texts.minute, 60), even(texts.hour, 24)
    parts: list[tuple[Unit, str]] = []
    if second != "0":
        parts.append(("second", second))
    if not (minute == "*" and repeats(second)) and not (minute == "0" and second == "0"):
        parts.append(("minute", minute))
    if hour != "*" or not parts or minute.isdecimal():
        parts.append(("hour", hour))
    return parts


def numbers(text: str) -> list[int]:
    """The numbers of a list; empty if it contains anything else."""
    items = text.split(",")
    return sorted({int(item) for item in items}) if all(item.isdecimal() for item in items) else []


def even(text: str, cycle: int) -> str:
    """The field in its plainest spelling: `*/5` for `0/5`, `*` for `*/1`."""
    found = re.fullmatch(r"(?:\*|0)/(\d+)", text)
    if found is None:
        return text
    return "*" if found[1] == "1" else f"*/{found[1]}" if int(found[1]) < cycle else "0"


def read_item(item: str) -> tuple[str, str | None, str | None]:
    """The first value of an item or `*`, its last one, its step."""
    found = ITEM.fullmatch(item)
    assert found is not None
    first, last, step = found.groups()
    return first, last, step


def repeats(text: str) -> bool:
    """Whether the field is a repetition without an end."""
    return text == "*" or text.startswith("*/")


def gathered(text: str) -> list[str]:
    """The items of a list, each once."""
    return list(dict.fromkeys(text.split(",")))


def is_open(text: str) -> bool:
    """Whether the day field restricts nothing (in Unix cron one `*` in a list is enough)."""
    return not {"*", "?", "*/1"}.isdisjoint(text.split(","))
