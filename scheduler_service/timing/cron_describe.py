"""A cron expression as an English sentence, for previews (SPEC section 3)."""

import re
from collections.abc import Callable

import msgspec

from scheduler_service.timing.cron import Cron
from scheduler_service.timing.cron_fields import MONTHS, WEEKDAYS

_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_FEW = 6
_ITEM = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")


class _Texts(msgspec.Struct, frozen=True, gc=False):
    """The fields of a normal form; a missing second is 0, a missing year `*`."""

    second: str
    minute: str
    hour: str
    date: str
    month: str
    weekday: str
    year: str
    sunday: int


def describe(cron: Cron) -> str:
    """When `cron` fires, as in "Every 5 minutes" or "At 09:00:01 on day 1 of October 2023". Never raises."""
    texts = _split(cron)
    sentence = _clock(texts) + _days(texts) + _months(texts) + _years(texts)
    return sentence[0].upper() + sentence[1:]


def _split(cron: Cron) -> _Texts:
    fields = cron.normal_form.split()
    if cron.dialect == "unix":
        fields = ["0", *fields]
    second, minute, hour, date, month, weekday = fields[:6]
    year = fields[6] if len(fields) == 7 else "*"
    sunday = 0 if cron.dialect == "unix" else 1
    return _Texts(second, minute, hour, date, month, weekday, year, sunday)


def _clock(texts: _Texts) -> str:
    hours, minutes = _numbers(texts.hour), _numbers(texts.minute)
    if not 1 <= len(hours) * len(minutes) <= _FEW or not texts.second.isdecimal():
        return _cadence(texts)
    seconds = f":{int(texts.second):02}" if texts.second != "0" else ""
    clocks = [f"{hour:02}:{minute:02}{seconds}" for hour in hours for minute in minutes]
    any_day = _open(texts.date) and _open(texts.weekday) and texts.month == "*" and texts.year == "*"
    return f"at {_join(clocks)}" + (" every day" if any_day else "")


def _numbers(text: str) -> list[int]:
    """The numbers of a list; empty if it contains anything else."""
    items = text.split(",")
    return sorted({int(item) for item in items}) if all(item.isdecimal() for item in items) else []


def _cadence(texts: _Texts) -> str:
    """The repetition within the day, the finest part first: "every 5 minutes, hours 8 to 18"."""
    second, minute, hour = _even(texts.second, 60), _even(texts.minute, 60), _even(texts.hour, 24)
    parts = []
    if second != "0":
        parts.append(_phrase(second, "second"))
    if not (minute == "*" and _repeats(second)) and not (minute == "0" and second == "0"):
        parts.append(_phrase(minute, "minute"))
    if hour != "*" or not parts or minute.isdecimal():
        parts.append(_phrase(hour, "hour"))
    if len(parts) > 1 and _repeats(hour) and minute.isdecimal() and second.isdecimal():
        # "every 2 hours at minute 30" reads better than the order of the fields.
        return f"{parts[-1]} at {' and '.join(reversed(parts[:-1]))}"
    lead = parts[0] if parts[0].startswith("every") else f"at {parts[0]}"
    return lead + "".join(f", {part}" if part.startswith("every") else f" in {part}" for part in parts[1:])


def _even(text: str, cycle: int) -> str:
    """The field in its plainest spelling: `*/5` for `0/5`, `*` for `*/1`."""
    found = re.fullmatch(r"(?:\*|0)/(\d+)", text)
    if found is None:
        return text
    return "*" if found[1] == "1" else f"*/{found[1]}" if int(found[1]) < cycle else "0"


def _repeats(text: str) -> bool:
    return text == "*" or text.startswith("*/")


def _phrase(text: str, unit: str) -> str:
    return _join([_span(item, unit) for item in _gathered(text)]) if "," in text else _span(text, unit)


def _gathered(text: str) -> list[str]:
    return list(dict.fromkeys(text.split(",")))


def _span(item: str, unit: str) -> str:
    found = _ITEM.fullmatch(item)
    assert found is not None
    first, last, step = found.groups()
    every = f"every {unit}" if step in (None, "1") else f"every {step} {unit}s"
    if first == "*":
        return every
    if last is not None:
        return f"{unit}s {first} to {last}" if step in (None, "1") else f"{every} from {first} to {last}"
    return f"{unit} {first}" if step is None else f"{every} from {unit} {first}"


def _days(texts: _Texts) -> str:
    dates = [] if _open(texts.date) else _gathered(texts.date)
    date = _join([_date(item) for item in dates])
    week = (
        ""
        if _open(texts.weekday)
        else _join([_week(item, texts.sunday) for item in _gathered(texts.weekday)])
    )
    if date and texts.month == "*":
        date += " of the month"
    both = [f" on {words}" for words in (date, week) if words]
    return " or".join(both)


def _open(text: str) -> bool:
    """Whether the day field restricts nothing (in Unix cron one `*` in a list is enough)."""
    return not {"*", "?", "*/1"}.isdisjoint(text.split(","))


def _date(item: str) -> str:
    if item == "L":
        return "the last day"
    if item == "LW":
        return "the last working day"
    found = re.fullmatch(r"L-(\d+)(W?)", item)
    if found is not None:
        day = (
            "the day before the last" if found[1] == "1" else f"the {_nth(int(found[1]))} day before the last"
        )
        return f"the working day nearest to {day}" if found[2] else day
    if item.endswith("W"):
        return f"the working day nearest to day {item[:-1]}"
    if "/" in item or item == "*":
        return _named_span(item, str, "day")
    return _span(item, "day")


def _week(item: str, sunday: int) -> str:
    name, mark, nth = item.partition("#")
    if mark:
        return f"the {_ORDINALS[int(nth)]} {_weekday(name, sunday)} of the month"
    if item.endswith("L"):
        return f"the last {_weekday(item[:-1], sunday)} of the month"
    return _named_span(item, lambda text: _weekday(text, sunday), "day of the week")


def _weekday(text: str, sunday: int) -> str:
    return _WEEKDAY_NAMES[WEEKDAYS.index(text) if text in WEEKDAYS else (int(text) - sunday) % 7]


def _month(text: str) -> str:
    return _MONTH_NAMES[MONTHS.index(text) if text in MONTHS else int(text) - 1]


def _months(texts: _Texts) -> str:
    if "*" in texts.month.split(","):
        return ""
    names = _join([_named_span(item, _month, "month") for item in _gathered(texts.month)])
    dated = not _open(texts.date) and _open(texts.weekday)
    return f" {'of' if dated else 'in'} {names}"


def _named_span(item: str, name: Callable[[str], str], unit: str) -> str:
    found = _ITEM.fullmatch(item)
    assert found is not None
    first, last, step = found.groups()
    step = None if step == "1" and (last or first == "*") else step
    if first == "*":
        return f"every {unit}" if step is None else f"every {_nth(int(step))} {unit}"
    if last is not None:
        span = f"{name(first)} to {name(last)}"
        return span if step is None else f"every {_nth(int(step))} {unit} from {span}"
    return name(first) if step is None else f"every {_nth(int(step))} {unit} from {name(first)}"


def _nth(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _years(texts: _Texts) -> str:
    if "*" in texts.year.split(","):
        return ""
    years = _join([_named_span(item, str, "year") for item in _gathered(texts.year)])
    one_month = texts.month in MONTHS or texts.month.isdecimal()
    return f" {years}" if one_month and texts.year.isdecimal() else f" in {years}"


def _join(words: list[str]) -> str:
    words = list(dict.fromkeys(words))
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
