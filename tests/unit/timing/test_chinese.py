"""Timers in Chinese, for the preview (SPEC section 3)."""

from datetime import UTC, datetime

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import as_moment
from scheduler_service.timing.preview import describe, preview, show
from scheduler_service.timing.timer import Timer, TimerText, compile_timer
from tests.rows import each_row

NOON = as_moment(datetime(2024, 3, 30, 12, tzinfo=UTC))


def make(due_time: str | None, period: str | None, **members: object) -> Timer:
    text = TimerText(due_time=due_time, period=period, **members)  # type: ignore[arg-type]
    return compile_timer(text, default_zone="UTC")


@each_row(
    ("timer", "sentence"),
    [
        (make(None, None), "一次，立即"),
        (make(None, None, start_at="2024-04-01 09:00:00"), "一次，2024-04-01 09:00:00（UTC 时间）"),
        (make("10s", "R4/PT3S"), "每 3 秒，首次在创建后 10 秒，共 4 次"),
        (make("0s", "61m"), "每 1 小时 1 分钟，首次立即"),
        (make("0s", "1h"), "每小时，首次立即"),
        (make("1h", "R1/P1D"), "一次，在创建后 1 小时"),
        (make("0s", "external"), "仅在被触发时执行"),
        (make("0s", "0 0 9 * * ?", timezone="Asia/Shanghai"), "每天 09:00（Asia/Shanghai 时间）"),
        (
            make("0s", "P1M", start_at="2024-05-01 00:00:00", ttl="P1Y", jitter=30_000),
            "每个月，首次立即，不早于 2024-05-01 00:00:00（UTC 时间），自创建起 1 年 内，每次最多推迟 30 秒",
        ),
    ],
)
def test_sentences(timer: Timer, sentence: str) -> None:
    """The same that the English sentence says."""
    assert describe(timer, "zh") == sentence


def test_days_of_clock_changes_are_told() -> None:
    """Forward in March, back in October."""
    timer = make("0s", "30 2 * * *", timezone="Europe/Berlin")
    shown = preview(timer, anchor=NOON, count=2, language="zh")
    assert [one.note for one in shown.firings] == ["当天时钟拨快 1 小时", None]
    autumn = as_moment(datetime(2024, 10, 26, 12, tzinfo=UTC))
    (back,) = show(timer, Cursor(autumn), count=1, language="zh")
    assert back.note == "当天时钟拨慢 1 小时"
