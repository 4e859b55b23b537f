"""Cron in Chinese, for the preview (SPEC section 3)."""

import re

from hypothesis import given

from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.cron_chinese import describe
from tests.rows import each_row
from tests.unit.timing.expressions import quartz_expressions, unix_expressions


@each_row(
    ("expression", "sentence"),
    [
        ("*/5 * * * *", "每 5 分钟"),
        ("1 0 9 1 10 ? 2023", "2023 年 10 月 1 日 09:00:01"),
        ("0 0 9 * * ?", "每天 09:00"),
        ("* * * * * ?", "每秒"),
        ("@hourly", "每小时"),
        ("30 * * * *", "每小时，第 30 分"),
        ("0 30 */2 * * ?", "每 2 小时，第 30 分"),
        ("0 10,40 2 * * ?", "每天 02:10、02:40"),
        ("0 0/7 8-18 ? * 6L", "每月最后一个周五，8 至 18 时，每 7 分钟"),
        ("0 0 12 L-3 * ?", "每月 月末前第 3 天 12:00"),
        ("0 0 12 15W,LW * ?", "每月 最接近 15 日的工作日、最后一个工作日 12:00"),
        ("0 0 12 ? * MON#2 2024-2026", "2024 年至 2026 年 每月第二个周一 12:00"),
        ("0 0 1 * 5", "每月 1 日 或 周五 00:00"),
        ("0 0 * * 7", "周日 00:00"),
        ("0 0 */3 * *", "每月 每 3 天 00:00"),
        ("0 15 10 ? JAN,JUN MON-FRI", "1 月、6 月 周一至周五 10:15"),
    ],
)
def test_sentences(expression: str, sentence: str) -> None:
    """A sentence says when the expression fires."""
    assert describe(parse_cron(expression)) == sentence


@given(unix_expressions() | quartz_expressions())
def test_every_expression_has_a_sentence_without_english(expression: str) -> None:
    """Whatever the fields: no Latin letter is in it."""
    sentence = describe(parse_cron(expression))
    assert sentence
    assert re.search("[A-Za-z]", sentence) is None
