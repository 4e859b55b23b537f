"""Cron in English, for the preview (SPEC section 3)."""

from hypothesis import given

from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.cron_english import describe
from tests.rows import each_row
from tests.unit.timing.expressions import quartz_expressions, unix_expressions


@each_row(
    ("expression", "sentence"),
    [
        ("*/5 * * * *", "Every 5 minutes"),
        ("1 0 9 1 10 ? 2023", "At 09:00:01 on day 1 of October 2023"),
        ("0 0 9 * * ?", "At 09:00 every day"),
        ("* * * * * ?", "Every second"),
        ("0/10 * * * * ?", "Every 10 seconds"),
        ("@hourly", "Every hour"),
        ("30 * * * *", "Every hour at minute 30"),
        ("0 0 0/6 * * ?", "Every 6 hours"),
        ("0 30 */2 * * ?", "Every 2 hours at minute 30"),
        ("* 5 * * * ?", "Every second in minute 5, every hour"),
        ("0 10,40 2 * * ?", "At 02:10 and 02:40 every day"),
        ("0 0/7 8-18 ? * 6L", "Every 7 minutes in hours 8 to 18 on the last Friday of the month"),
        ("0 0 12 L-3 * ?", "At 12:00 on the 3rd day before the last of the month"),
        (
            "0 0 12 15W,LW * ?",
            "At 12:00 on the working day nearest to day 15 and the last working day of the month",
        ),
        ("0 0 12 ? * MON#2 2024-2026", "At 12:00 on the second Monday of the month in 2024 to 2026"),
        ("0 0 1 * 5", "At 00:00 on day 1 of the month or on Friday"),
        ("0 0 * * 7", "At 00:00 on Sunday"),
        ("0 0 */3 * *", "At 00:00 on every 3rd day of the month"),
        ("0 15 10 ? JAN,JUN MON-FRI", "At 10:15 on Monday to Friday in January and June"),
    ],
)
def test_sentences(expression: str, sentence: str):
    """A sentence says when the expression fires."""
    assert describe(parse_cron(expression)) == sentence


@given(unix_expressions() | quartz_expressions())
def test_every_expression_has_a_sentence(expression: str) -> None:
    """Whatever can be read can be said."""
    sentence = describe(parse_cron(expression))
    assert sentence[0].isupper()
    assert "  " not in sentence


@each_row(("step", "word"), [(11, "11th"), (12, "12th"), (13, "13th"), (22, "22nd")])
def test_numbers_in_words(step: int, word: str) -> None:
    """The teens are all `th`."""
    assert f"every {word} day" in describe(parse_cron(f"0 0 0 */{step} * ?"))
