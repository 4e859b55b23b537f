"""Cron expressions in words, for previews, in each language (SPEC section 3)."""

import re

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.timing.chinese import CronChinese
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.cron_english import CronEnglish
from scheduler_service.timing.cron_parts import (
    cadence,
    clocks,
    even,
    gathered,
    is_open,
    numbers,
    repeats,
    split,
)
from tests.rows import each_row

CLOCK = ["*", "*/1", "*/5", "1/2", "0", "2,4", "3-5", "1-6/2", "6-2", "2,3-5/2"]
DATES = ["*", "*/1", "*/5", "1/2", "1", "2,4", "3-5", "1-6/2", "2,3-5/2"]
MARKED_DATES = ["L", "L-2", "LW", "L-1W", "3W", "15W,LW"]
MONTHS = ["*", "*/5", "1/2", "1", "2,4", "JAN,JUN", "3-5", "1-6/2", "11-2", "2,3-5/2"]
WEEKDAYS = ["*", "*/2", "1", "2,4", "3-5", "1-6/2", "6-2", "MON-FRI", "SUN"]
MARKED_WEEKDAYS = ["L", "6L", "2#1", "MON#3", "1#1,3L"]
YEARS = ["*", "2030", "2030,2031", "2030-2035/2"]
_clock, _months = st.sampled_from(CLOCK), st.sampled_from(MONTHS)
_days = st.tuples(st.sampled_from(DATES + MARKED_DATES), _months, st.just("?")) | st.tuples(
    st.just("?"), _months, st.sampled_from(WEEKDAYS + MARKED_WEEKDAYS)
)


def unix_expressions() -> st.SearchStrategy[str]:
    """Five fields."""
    fields = st.tuples(_clock, _clock, st.sampled_from(DATES), _months, st.sampled_from(WEEKDAYS))
    return fields.map(" ".join)


def quartz_expressions() -> st.SearchStrategy[str]:
    """Six or seven fields, one of the days open; days may depend on the month."""
    years = st.just(()) | st.sampled_from(YEARS).map(lambda year: (year,))
    fields = st.tuples(st.tuples(_clock, _clock, _clock), _days, years)
    return fields.map(lambda parts: " ".join((*parts[0], *parts[1], *parts[2])))


@each_row(
    ("expression", "english", "chinese"),
    [
        ("*/5 * * * *", "Every 5 minutes", "每 5 分钟"),
        ("1 0 9 1 10 ? 2023", "At 09:00:01 on day 1 of October 2023", "2023 年 10 月 1 日 09:00:01"),
        ("0 0 9 * * ?", "At 09:00 every day", "每天 09:00"),
        ("* * * * * ?", "Every second", "每秒"),
        ("0/10 * * * * ?", "Every 10 seconds", "每 10 秒"),
        ("@hourly", "Every hour", "每小时"),
        ("30 * * * *", "Every hour at minute 30", "每小时，第 30 分"),
        ("0 0 0/6 * * ?", "Every 6 hours", "每 6 小时"),
        ("0 30 */2 * * ?", "Every 2 hours at minute 30", "每 2 小时，第 30 分"),
        ("* 5 * * * ?", "Every second in minute 5, every hour", "每小时，第 5 分，每秒"),
        ("0 10,40 2 * * ?", "At 02:10 and 02:40 every day", "每天 02:10、02:40"),
        (
            "0 0/7 8-18 ? * 6L",
            "Every 7 minutes in hours 8 to 18 on the last Friday of the month",
            "每月最后一个周五，8 至 18 时，每 7 分钟",
        ),
        (
            "0 0 12 L-3 * ?",
            "At 12:00 on the 3rd day before the last of the month",
            "每月 月末前第 3 天 12:00",
        ),
        (
            "0 0 12 15W,LW * ?",
            "At 12:00 on the working day nearest to day 15 and the last working day of the month",
            "每月 最接近 15 日的工作日、最后一个工作日 12:00",
        ),
        (
            "0 0 12 ? * MON#2 2024-2026",
            "At 12:00 on the second Monday of the month in 2024 to 2026",
            "2024 年至 2026 年 每月第二个周一 12:00",
        ),
        ("0 0 1 * 5", "At 00:00 on day 1 of the month or on Friday", "每月 1 日 或 周五 00:00"),
        ("0 0 * * 7", "At 00:00 on Sunday", "周日 00:00"),
        ("0 0 */3 * *", "At 00:00 on every 3rd day of the month", "每月 每 3 天 00:00"),
        (
            "0 15 10 ? JAN,JUN MON-FRI",
            "At 10:15 on Monday to Friday in January and June",
            "1 月、6 月 周一至周五 10:15",
        ),
    ],
)
def test_sentences(expression: str, english: str, chinese: str) -> None:
    """A sentence says when the expression fires."""
    cron = parse_cron(expression)
    assert (CronEnglish().describe(cron), CronChinese().describe(cron)) == (english, chinese)


@given(unix_expressions() | quartz_expressions())
def test_every_expression_has_a_sentence_in_each_language(expression: str) -> None:
    """Whatever can be read can be said; no Latin letter is in what is Chinese."""
    cron = parse_cron(expression)
    english, chinese = CronEnglish().describe(cron), CronChinese().describe(cron)
    assert english[0].isupper()
    assert "  " not in english
    assert chinese
    assert re.search("[A-Za-z]", chinese) is None


def test_what_a_field_says() -> None:
    """Numbers, repetitions in their plainest spelling, and days that restrict nothing."""
    assert (numbers("10,5,5"), numbers("1-3")) == ([5, 10], [])
    assert [even(text, 60) for text in ("0/5", "*/1", "0/60", "3")] == ["*/5", "*", "0", "3"]
    assert [repeats(text) for text in ("*", "*/2", "5")] == [True, True, False]
    assert gathered("1,2,1") == ["1", "2"]
    assert [is_open(text) for text in ("?", "1,*", "1")] == [True, True, False]
    # Six at most, none of them a repetition
    assert clocks(split(parse_cron("1 0 9,18 * * ?"))) == ["09:00:01", "18:00:01"]
    assert len(clocks(split(parse_cron("0,30 1,2,3 * * *")))) == 6
    assert clocks(split(parse_cron("0,30 1,2,3,4 * * *"))) == []
    assert clocks(split(parse_cron("* 0 9 * * ?"))) == []
    # The finest first; an hour that is each one goes without saying beside a repetition
    assert cadence(split(parse_cron("*/5 * * * *"))) == [("minute", "*/5")]
    assert cadence(split(parse_cron("0 30 0/2 * * ?"))) == [("minute", "30"), ("hour", "*/2")]
    assert cadence(split(parse_cron("5 * * * * ?"))) == [("second", "5"), ("minute", "*")]
    assert cadence(split(parse_cron("* * * * * ?"))) == [("second", "*")]
    assert cadence(split(parse_cron("@hourly"))) == [("hour", "*")]
