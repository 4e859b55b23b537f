"""Timers and cron expressions as sentences in Chinese (SPEC section 3)."""

import re
from collections.abc import Mapping

from scheduler_service.timing.calendar_days import FREE, WORK
from scheduler_service.timing.cron import Cron
from scheduler_service.timing.cron_english import CronEnglish
from scheduler_service.timing.cron_parts import CronTexts, cadence, clocks, split
from scheduler_service.timing.english import English


class CronChinese(CronEnglish):
    """Sentences in Chinese: the date before the time, the coarsest unit first."""

    comma, listed, last_listed, either = "，", "、", "、", " 或 "
    fields: Mapping[str, tuple[str, str]] = {
        "hour": ("时", "小时"), "minute": ("分", "分钟"), "second": ("秒", "秒"),
    }  # fmt: skip
    every_one, every_some = "每{units}", "每 {step} {units}"
    span, stepped_span = "{first} 至 {last} {point}", "{first} 至 {last} {point}{every}"
    point, stepped_from = "第 {first} {point}", "从第 {first} {point}起{every}"
    every_named, every_nth = "每{unit}", "每 {step} {unit}"
    to, every_of_span, every_from = "{}至{}", "{1}{0}", "从{1}起{0}"
    last_day, last_working_day = "最后一天", "最后一个工作日"
    nearest, nearest_day = "最接近{}的工作日", "最接近 {} 日的工作日"
    of_each_month, nth_weekday, last_weekday = "每月 {}", "每月第{}个{}", "每月最后一个{}"
    weekday_unit, month_unit, year_unit, year = "天", "个月", "年", "{} 年"
    ordinals = "一二三四五"
    weekdays = tuple(f"周{day}" for day in "日一二三四五六")
    months = tuple(f"{number} 月" for number in range(1, 13))

    def describe(self, cron: Cron) -> str:
        """When `cron` fires, as in "每 5 分钟" or "2023 年 10 月 1 日 09:00:01"."""
        texts = split(cron)
        told, days = clocks(texts), self._days(texts)
        if told and not days:
            days = "每天"
        date = " ".join(filter(None, (self._years(texts), self._months(texts), days)))
        if told:
            return f"{date} {self._join(told)}"
        return self.comma.join(filter(None, (date, self._cadence(texts))))

    def _cadence(self, texts: CronTexts) -> str:
        """The repetition within the day: "8 至 18 时，每 5 分钟"."""
        return self.comma.join(reversed([self._phrase(text, unit) for unit, text in cadence(texts)]))

    def _from_to(self, first: str, last: str) -> str:
        return self.to.format(first, f" {last}" if last[0].isdecimal() else last)

    def _before_last(self, days: int) -> str:
        return f"月末前第 {days} 天"

    def _plain_date(self, item: str) -> str:
        return self._named_span(item, "{} 日".format, "天")


class Chinese(English):
    """Sentences in Chinese."""

    cron = CronChinese()
    comma = "，"
    clock_units = ("小时", "分钟", "秒")
    nothing = "0 秒"
    moment = "{}（{} 时间）"
    at, at_once, after_creation = "在 {}", "立即", "在创建后 {}"
    triggered, once, once_at, once_now = "仅在被触发时执行", "一次，{}", "一次，{}", "一次，立即"
    each, every, after_end = "每{}，{}{}", "每 {}，{}{}", "每次结束后 {}，{}{}"
    first, counted = "首次{}", "从创建时算起"
    times = "，共 {} 次"
    not_before, not_after = "不早于 {}", "不晚于 {}"
    from_creation, jitter = "自创建起 {} 内", "每次最多推迟 {}"
    back, forward = "当天时钟拨慢 {}", "当天时钟拨快 {}"
    cron_in_zone = "{}（{} 时间）"
    days_of: Mapping[str, str] = {WORK: "{} 的工作日", FREE: "{} 的休息日"}
    every_day = re.compile(r"^每天")
    on_days_alone, otherwise = "{}，仅在 {}", "{}，否则{}"
    otherwise_days: Mapping[str, str] = {"next": "顺延到下一个此类日", "previous": "提前到上一个此类日"}
    units: Mapping[str, str] = {
        "year": "年", "month": "个月", "week": "周", "day": "天",
        "hour": "小时", "minute": "分钟", "second": "秒", "millisecond": "毫秒",
    }  # fmt: skip

    def _unit(self, count: int, name: str) -> str:
        return self.units[name]
