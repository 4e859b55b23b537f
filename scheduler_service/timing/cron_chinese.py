"""A cron expression as a Chinese sentence, for previews (SPEC section 3)."""

import re
from collections.abc import Callable

from scheduler_service.timing.cron import Cron
from scheduler_service.timing.cron_fields import MONTHS, WEEKDAYS
from scheduler_service.timing.cron_parts import ITEM, CronTexts, cadence, clocks, gathered, is_open, split

_DAYS_OF_WEEK = "日一二三四五六"
_ORDINALS = "一二三四五"
_UNITS = {"hour": ("时", "小时"), "minute": ("分", "分钟"), "second": ("秒", "秒")}


def describe(cron: Cron) -> str:
    """When `cron` fires, as in "每 5 分钟" or "2023 年 10 月 1 日 09:00:01". Never raises."""
    texts = split(cron)
    told = clocks(texts)
    days = [_years(texts), _months(texts), _days(texts)]
    if told and not days[2]:
        days[2] = "每天"
    date = " ".join(day for day in days if day)
    if told:
        return f"{date} {_join(told)}"
    return "，".join(part for part in (date, _cadence(texts)) if part)


def _cadence(texts: CronTexts) -> str:
    """The repetition within the day, the coarsest part first: "8 至 18 时，每 5 分钟"."""
    return "，".join(reversed([_phrase(text, unit) for unit, text in cadence(texts)]))


def _phrase(text: str, unit: str) -> str:
    return _join([_span(item, unit) for item in gathered(text)])


def _span(item: str, unit: str) -> str:
    point, length = _UNITS[unit]
    first, last, step = _match(item)
    every = f"每{length}" if step in (None, "1") else f"每 {step} {length}"
    if first == "*":
        return every
    if last is not None:
        return f"{first} 至 {last} {point}" + ("" if step in (None, "1") else every)
    return f"第 {first} {point}" if step is None else f"从第 {first} {point}起{every}"


def _match(item: str) -> tuple[str, str | None, str | None]:
    found = ITEM.fullmatch(item)
    assert found is not None
    first, last, step = found.groups()
    return first, last, step


def _days(texts: CronTexts) -> str:
    dates = [] if is_open(texts.date) else [_date(item) for item in gathered(texts.date)]
    date = _join(dates)
    if date and texts.month == "*":
        date = f"每月 {date}"
    weekdays = [] if is_open(texts.weekday) else gathered(texts.weekday)
    week = _join([_week(item, texts.sunday) for item in weekdays])
    return " 或 ".join(words for words in (date, week) if words)


def _date(item: str) -> str:
    if item in ("L", "LW"):
        return "最后一天" if item == "L" else "最后一个工作日"
    found = re.fullmatch(r"L-(\d+)(W?)", item)
    if found is not None:
        day = f"月末前第 {found[1]} 天"
        return f"最接近{day}的工作日" if found[2] else day
    if item.endswith("W"):
        return f"最接近 {item[:-1]} 日的工作日"
    return _named_span(item, lambda day: f"{day} 日", "天")


def _week(item: str, sunday: int) -> str:
    name, mark, nth = item.partition("#")
    if mark:
        return f"每月第{_ORDINALS[int(nth) - 1]}个{_weekday(name, sunday)}"
    if item.endswith("L"):
        return f"每月最后一个{_weekday(item[:-1], sunday)}"
    return _named_span(item, lambda text: _weekday(text, sunday), "天")


def _weekday(text: str, sunday: int) -> str:
    index = WEEKDAYS.index(text) if text in WEEKDAYS else (int(text) - sunday) % 7
    return f"周{_DAYS_OF_WEEK[index]}"


def _months(texts: CronTexts) -> str:
    if "*" in texts.month.split(","):
        return ""
    return _join([_named_span(item, _month, "个月") for item in gathered(texts.month)])


def _month(text: str) -> str:
    return f"{MONTHS.index(text) + 1 if text in MONTHS else int(text)} 月"


def _years(texts: CronTexts) -> str:
    if "*" in texts.year.split(","):
        return ""
    return _join([_named_span(item, lambda year: f"{year} 年", "年") for item in gathered(texts.year)])


def _named_span(item: str, name: Callable[[str], str], unit: str) -> str:
    first, last, step = _match(item)
    every = f"每{unit}" if step in (None, "1") else f"每 {step} {unit}"
    if first == "*":
        return every
    if last is not None:
        to = "至 " if name(last)[0].isdecimal() else "至"
        return f"{name(first)}{to}{name(last)}" + ("" if step in (None, "1") else every)
    return name(first) if step is None else f"从{name(first)}起{every}"


def _join(words: list[str]) -> str:
    return "、".join(dict.fromkeys(words))
