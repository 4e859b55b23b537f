"""Cron expressions as sentences in English, and the pattern of other languages (SPEC section 3)."""

import re
from collections.abc import Callable, Mapping, Sequence

from scheduler_service.timing.cron import Cron
from scheduler_service.timing.cron_fields import MONTHS, WEEKDAYS
from scheduler_service.timing.cron_parts import (
    CronTexts,
    cadence,
    clocks,
    gathered,
    is_open,
    read_item,
    repeats,
    split,
)

NEVER_STEPPED = (None, "1")


class CronEnglish:
    """Sentences in English, as "Every 5 minutes". Another language is a class with other words.

    What stands in braces is filled in. No method raises.
    """

    listed, last_listed, either = ", ", " and ", " or on "
    fields: Mapping[str, tuple[str, str]] = {
        name: (name, f"{name}s") for name in ("day", "hour", "minute", "second")
    }
    every_one, every_some = "every {point}", "every {step} {units}"
    span, stepped_span = "{units} {first} to {last}", "{every} from {first} to {last}"
    point, stepped_from = "{point} {first}", "{every} from {point} {first}"
    every_named, every_nth = "every {unit}", "every {nth} {unit}"
    to, every_of_span, every_from = "{} to {}", "{} from {}", "{} from {}"
    last_day, last_working_day = "the last day", "the last working day"
    nearest, nearest_day = "the working day nearest to {}", "the working day nearest to day {}"
    of_each_month, nth_weekday = "{} of the month", "the {} {} of the month"
    last_weekday = "the last {} of the month"
    weekday_unit, month_unit, year_unit, year = "day of the week", "month", "year", "{}"
    ordinals: Sequence[str] = ("first", "second", "third", "fourth", "fifth")
    weekdays: Sequence[str] = (
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
    )  # fmt: skip
    months: Sequence[str] = (
        "January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December",
    )  # fmt: skip

    def describe(self, cron: Cron) -> str:
        """When `cron` fires, as in "Every 5 minutes" or "At 09:00:01 on day 1 of October 2023"."""
        texts = split(cron)
        days = self._days(texts)
        sentence = self._clock(texts) + (f" on {days}" if days else "")
        if months := self._months(texts):
            dated = not is_open(texts.date) and is_open(texts.weekday)
            sentence += f" {'of' if dated else 'in'} {months}"
        if years := self._years(texts):
            one_month = texts.month in MONTHS or texts.month.isdecimal()
            sentence += f" {years}" if one_month and texts.year.isdecimal() else f" in {years}"
        return sentence[0].upper() + sentence[1:]

    def _clock(self, texts: CronTexts) -> str:
        told = clocks(texts)
        if not told:
            return self._cadence(texts)
        any_day = is_open(texts.date) and is_open(texts.weekday) and texts.month == "*" and texts.year == "*"
        return f"at {self._join(told)}" + (" every day" if any_day else "")

    def _cadence(self, texts: CronTexts) -> str:
        """The repetition within the day, the finest part first: "every 5 minutes, hours 8 to 18"."""
        found = cadence(texts)
        parts = [self._phrase(text, unit) for unit, text in found]
        (*finer, (coarsest, text)) = found
        if finer and coarsest == "hour" and repeats(text) and all(one.isdecimal() for _, one in finer):
            # "every 2 hours at minute 30" reads better than the order of the fields.
            return f"{parts[-1]} at {' and '.join(reversed(parts[:-1]))}"
        lead = parts[0] if parts[0].startswith("every") else f"at {parts[0]}"
        return lead + "".join(
            f", {part}" if part.startswith("every") else f" in {part}" for part in parts[1:]
        )

    def _phrase(self, text: str, unit: str) -> str:
        return self._join([self._span(item, unit) for item in gathered(text)])

    def _span(self, item: str, unit: str) -> str:
        first, last, step = read_item(item)
        point, units = self.fields[unit]
        values = {"first": first, "last": last, "step": step, "point": point, "units": units}
        every = (self.every_one if step in NEVER_STEPPED else self.every_some).format(**values)
        if first == "*":
            return every
        if last is not None:
            form = self.span if step in NEVER_STEPPED else self.stepped_span
        else:
            form = self.point if step is None else self.stepped_from
        return form.format(every=every, **values)

    def _named_span(self, item: str, name: Callable[[str], str], unit: str) -> str:
        first, last, step = read_item(item)
        form = self.every_named if step in NEVER_STEPPED else self.every_nth
        every = form.format(unit=unit, step=step, nth=_nth(int(step or 1)))
        if first == "*":
            return every
        if last is None:
            return name(first) if step is None else self.every_from.format(every, name(first))
        span = self._from_to(name(first), name(last))
        return span if step in NEVER_STEPPED else self.every_of_span.format(every, span)

    def _from_to(self, first: str, last: str) -> str:
        return self.to.format(first, last)

    def _days(self, texts: CronTexts) -> str:
        dates = [] if is_open(texts.date) else gathered(texts.date)
        date = self._join([self._date(item) for item in dates])
        if date and texts.month == "*":
            date = self.of_each_month.format(date)
        weekdays = [] if is_open(texts.weekday) else gathered(texts.weekday)
        week = self._join([self._week(item, texts.sunday) for item in weekdays])
        return self.either.join(words for words in (date, week) if words)

    def _date(self, item: str) -> str:
        if item in ("L", "LW"):
            return self.last_day if item == "L" else self.last_working_day
        found = re.fullmatch(r"L-(\d+)(W?)", item)
        if found is not None:
            day = self._before_last(int(found[1]))
            return self.nearest.format(day) if found[2] else day
        if item.endswith("W"):
            return self.nearest_day.format(item[:-1])
        return self._plain_date(item)

    def _before_last(self, days: int) -> str:
        return "the day before the last" if days == 1 else f"the {_nth(days)} day before the last"

    def _plain_date(self, item: str) -> str:
        return self._named_span(item, str, "day") if "/" in item or item == "*" else self._span(item, "day")

    def _week(self, item: str, sunday: int) -> str:
        def name(text: str) -> str:
            return self.weekdays[WEEKDAYS.index(text) if text in WEEKDAYS else (int(text) - sunday) % 7]

        day, mark, nth = item.partition("#")
        if mark:
            return self.nth_weekday.format(self.ordinals[int(nth) - 1], name(day))
        if item.endswith("L"):
            return self.last_weekday.format(name(item[:-1]))
        return self._named_span(item, name, self.weekday_unit)

    def _months(self, texts: CronTexts) -> str:
        def name(text: str) -> str:
            return self.months[MONTHS.index(text) if text in MONTHS else int(text) - 1]

        return self._unless_all(texts.month, name, self.month_unit)

    def _years(self, texts: CronTexts) -> str:
        return self._unless_all(texts.year, self.year.format, self.year_unit)

    def _unless_all(self, text: str, name: Callable[[str], str], unit: str) -> str:
        if "*" in text.split(","):
            return ""
        return self._join([self._named_span(item, name, unit) for item in gathered(text)])

    def _join(self, words: list[str]) -> str:
        words = list(dict.fromkeys(words))
        return self.last_listed.join(filter(None, (self.listed.join(words[:-1]), *words[-1:])))


def _nth(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
