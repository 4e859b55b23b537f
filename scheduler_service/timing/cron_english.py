"""A cron expression as an English sentence, for previews (SPEC section 3)."""

import re
from collections.abc import Callable

from scheduler_service.timing.cron import Cron
from scheduler_service.timing.cron_fields import MONTHS, WEEKDAYS
from scheduler_service.timing.cron_parts import (
    ITEM,
    CronTexts,
    cadence,
    clocks,
    gathered,
    is_open,
    repeats,
    split,
)

_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}


def describe(cron: Cron) -> str:
    """When `cron` fires, as in "Every 5 minutes" or "At 09:00:01 on day 1 of October 2023". Never raises."""
    texts = split(cron)
    sentence = _clock(texts) + _days(texts) + _months(texts) + _years(texts)
    return sentence[0].upper() + sentence[1:]


def _clock(texts: CronTexts) -> str:
    told = clocks(texts)
    if not told:
        return _cadence(texts)
    any_day = is_open(texts.date) and is_open(texts.weekday) and texts.month == "*" and texts.year == "*"
    return f"at {_join(told)}" + (" every day" if any_day else "")


def _cadence(texts: CronTexts) -> str:
    """The repetition within the day, the finest part first: "every 5 minutes, hours 8 to 18"."""
    found = cadence(texts)
    parts = [_phrase(text, unit) for unit, text in found]
    (*finer, (coarsest, text)) = found
    if finer and coarsest == "hour" and repeats(text) and all(one.isdecimal() for _, one in finer):
        # "every 2 hours at minute 30" reads better than the order of the fields.
        return f"{parts[-1]} at {' and '.join(reversed(parts[:-1]))}"
    lead = parts[0] if parts[0].startswith("every") else f"at {parts[0]}"
    return lead + "".join(f", {part}" if part.startswith("every") else f" in {part}" for part in parts[1:])


def _phrase(text: str, unit: str) -> str:
    return _join([_span(item, unit) for item in gathered(text)]) if "," in text else _span(text, unit)


def _span(item: str, unit: str) -> str:
    found = ITEM.fullmatch(item)
    assert found is not None
    first, last, step = found.groups()
    every = f"every {unit}" if step in (None, "1") else f"every {step} {unit}s"
    if first == "*":
        return every
    if last is not None:
        return f"{unit}s {first} to {last}" if step in (None, "1") else f"{every} from {first} to {last}"
    return f"{unit} {first}" if step is None else f"{every} from {unit} {first}"


def _days(texts: CronTexts) -> str:
    dates = [] if is_open(texts.date) else gathered(texts.date)
    date = _join([_date(item) for item in dates])
    week = (
        ""
        if is_open(texts.weekday)
        else _join([_week(item, texts.sunday) for item in gathered(texts.weekday)])
    )
    if date and texts.month == "*":
        date += " of the month"
    both = [f" on {words}" for words in (date, week) if words]
    return " or".join(both)


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


def _months(texts: CronTexts) -> str:
    if "*" in texts.month.split(","):
        return ""
    names = _join([_named_span(item, _month, "month") for item in gathered(texts.month)])
    dated = not is_open(texts.date) and is_open(texts.weekday)
    return f" {'of' if dated else 'in'} {names}"


def _named_span(item: str, name: Callable[[str], str], unit: str) -> str:
    found = ITEM.fullmatch(item)
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


def _years(texts: CronTexts) -> str:
    if "*" in texts.year.split(","):
        return ""
    years = _join([_named_span(item, str, "year") for item in gathered(texts.year)])
    one_month = texts.month in MONTHS or texts.month.isdecimal()
    return f" {years}" if one_month and texts.year.isdecimal() else f" in {years}"


def _join(words: list[str]) -> str:
    words = list(dict.fromkeys(words))
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
