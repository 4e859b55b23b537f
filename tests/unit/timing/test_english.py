"""Timers in words, for previews: each language says the same of a timer (SPEC section 3)."""

from scheduler_service.domain.moments import HOUR
from scheduler_service.timing.calendar_days import DayRule, make_calendar
from scheduler_service.timing.durations import Duration, parse_duration
from scheduler_service.timing.preview import LANGUAGES, describe
from scheduler_service.timing.timer import Timer, bind_calendar
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row
from tests.unit.timing.timers import at, make

ENGLISH, CHINESE = LANGUAGES["en"], LANGUAGES["zh"]


def on_days(due_time: str, period: str, rule: DayRule, **members: object) -> Timer:
    """A timer whose calendar is known."""
    known = make_calendar(rule.name, version=1, changed_at=0, week=0b11111, layers=(), zone=None)
    return bind_calendar(make(due_time, period, calendar=rule, **members), known)


@each_row(
    ("timer", "english", "chinese"),
    [
        (make(), "Once, at once", "一次，立即"),
        (
            make(start_at="2024-04-01 09:00:00", timezone="Asia/Shanghai"),
            "Once, at 2024-04-01 09:00:00 Asia/Shanghai time",
            "一次，2024-04-01 09:00:00（Asia/Shanghai 时间）",
        ),
        (
            make("10s", "R4/PT3S"),
            "Every 3 seconds, first 10 seconds after its creation, 4 times in all",
            "每 3 秒，首次在创建后 10 秒，共 4 次",
        ),
        (make("0s", "61m"), "Every 1 hour 1 minute, first at once", "每 1 小时 1 分钟，首次立即"),
        (make("0s", "5m"), "Every 5 minutes, first at once", "每 5 分钟，首次立即"),
        (make("0s", "1h"), "Every hour, first at once", "每小时，首次立即"),
        (
            make("10s", "R4/PT5M", period_from="end"),
            "5 minutes after each end, first 10 seconds after its creation, 4 times in all",
            "每次结束后 5 分钟，首次在创建后 10 秒，共 4 次",
        ),
        (
            make("2024-04-01 09:00:00", "0s"),
            "Once, at 2024-04-01 09:00:00 UTC time",
            "一次，在 2024-04-01 09:00:00（UTC 时间）",
        ),
        (make("1h", "R1/P1D"), "Once, 1 hour after its creation", "一次，在创建后 1 小时"),
        (
            on_days("0s", "0 0 9 * * ?", DayRule("China"), timezone="Asia/Shanghai"),
            "At 09:00 on working days of China, Asia/Shanghai time",
            "China 的工作日 09:00（Asia/Shanghai 时间）",
        ),
        (
            on_days("0s", "P1M", DayRule("China", days="free", otherwise="next")),
            "Every month, first at once, on free days of China alone, else on the next such day",
            "每个月，首次立即，仅在 China 的休息日，否则顺延到下一个此类日",
        ),
        (make("0s", "external"), "Only when it is triggered", "仅在被触发时执行"),
        (
            make("0s", "0 0 9 * * ?", timezone="Asia/Shanghai"),
            "At 09:00 every day, Asia/Shanghai time",
            "每天 09:00（Asia/Shanghai 时间）",
        ),
        (
            make("0s", "P1M", start_at="2024-05-01 00:00:00", ttl="P1Y", jitter=30_000),
            "Every month, counted from its creation, not before 2024-05-01 00:00:00 UTC time, "
            "for 1 year from its creation, each up to 30 seconds later",
            "每个月，从创建时算起，不早于 2024-05-01 00:00:00（UTC 时间），"
            "自创建起 1 年 内，每次最多推迟 30 秒",
        ),
        (
            make("0s", "P1D", end_at="2024-05-01 00:00:00", ttl="2024-04-01 00:00:00"),
            "Every day, first at once, not after 2024-05-01 00:00:00 UTC time, "
            "not after 2024-04-01 00:00:00 UTC time",
            "每天，首次立即，不晚于 2024-05-01 00:00:00（UTC 时间），不晚于 2024-04-01 00:00:00（UTC 时间）",
        ),
    ],
)
def test_every_kind_has_a_sentence(timer: Timer, english: str, chinese: str) -> None:
    """Without a full stop; English is the language of who prefers none."""
    assert (describe(timer), describe(timer, "zh")) == (english, chinese)
    assert next(iter(LANGUAGES)) == "en"


@each_row(
    ("zone", "moment", "english", "chinese"),
    [
        ("Europe/Paris", "2026-03-28T22:59:59", None, None),
        ("Europe/Paris", "2026-03-28T23:00:00", "clocks go forward by 1 h this day", "当天时钟拨快 1 小时"),
        ("Europe/Paris", "2026-03-29T21:59:59", "clocks go forward by 1 h this day", "当天时钟拨快 1 小时"),
        ("Europe/Paris", "2026-03-29T22:00:00", None, None),
        ("Europe/Paris", "2026-10-25T12:00:00", "clocks go back by 1 h this day", "当天时钟拨慢 1 小时"),
        (
            "Australia/Lord_Howe",
            "2026-04-05T00:00:00",
            "clocks go back by 30 min this day",
            "当天时钟拨慢 30 分钟",
        ),
        # The 23rd is whole: 0:00 of the 24th is missing.
        ("Africa/Cairo", "2026-04-22T22:00:00", None, None),
        ("Africa/Cairo", "2026-04-23T22:00:00", "clocks go forward by 1 h this day", "当天时钟拨快 1 小时"),
        ("Africa/Cairo", "2026-10-29T12:00:00", "clocks go back by 1 h this day", "当天时钟拨慢 1 小时"),
        ("Africa/Cairo", "2026-10-29T22:00:00", None, None),
        ("Pacific/Apia", "2011-12-30T09:59:59", None, None),
        ("Pacific/Apia", "2011-12-30T10:00:00", "clocks go forward by 24 h this day", "当天时钟拨快 24 小时"),
        ("UTC", "2026-03-29T12:00:00", None, None),
    ],
)
def test_a_note_marks_the_days_on_which_clocks_change(
    zone: str, moment: str, english: str | None, chinese: str | None
) -> None:
    """Whatever the hour of the firing."""
    day = load_zone(zone), at(f"{moment}Z")
    assert (ENGLISH.note(*day), CHINESE.note(*day)) == (english, chinese)


@each_row(
    ("text", "words"),
    [
        ("2h30m", "2 hours 30 minutes"),
        ("P1Y1M1W", "1 year 1 month 1 week"),
        ("P8D", "8 days"),
        ("1500ms", "1 second 500 milliseconds"),
        ("24h", "24 hours"),
        ("0s", "0 seconds"),
    ],
)
def test_durations_are_said_in_words(text: str, words: str) -> None:
    """The largest unit first."""
    assert ENGLISH.length(parse_duration(text)) == words
    assert CHINESE.length(Duration(ms=2 * HOUR)) == "2 小时"
