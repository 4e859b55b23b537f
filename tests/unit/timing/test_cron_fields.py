"""Cron as text: fields, dialects, normal forms and refusals (SPEC section 3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.cron_text import MACROS
from tests.rows import each_row


@each_row(
    ("text", "field", "value", "column"),
    [
        ("60 * * * * ?", "second", "60", 0),
        ("0 61 * * * ?", "minute", "61", 2),
        ("0 0 24 * * ?", "hour", "24", 4),
        ("0 0 0 32 * ?", "day-of-month", "32", 6),
        ("0 0 0 0 * ?", "day-of-month", "0", 6),
        ("0 0 0 1 13 ?", "month", "13", 8),
        ("0 0 0 ? * 0", "day-of-week", "0", 10),
        ("0 0 0 ? * FOO", "day-of-week", "FOO", 10),
        ("0 0 0 ? * 2#6", "day-of-week", "2#6", 10),
        ("0 0 0 1 1 ? 2200", "year", "2200", 12),
        ("0 0 0 1 1 ? 2030-2028", "year", "2030-2028", 12),
        ("0 0 1,25 * * ?", "hour", "25", 6),
        ("0 0-75 0 * * ?", "minute", "75", 4),
        ("0 */60 0 * * ?", "minute", "60", 4),
        ("0 */0 0 * * ?", "minute", "0", 4),
        ("0 1/ 0 * * ?", "minute", "1/", 4),
        ("? * * * * *", "second", "?", 0),
        ("0 0 0 1 * MON", "day-of-month and day-of-week", "MON", 10),
        ("0 0 0 ? * ?", "day-of-month and day-of-week", "?", 6),
        ("0 0 0 ? * 6,L", "day-of-week", "L", 10),
        ("0 0 0 1-5W * ?", "day-of-month", "5W", 8),
        ("0 0 0 L-31 * ?", "day-of-month", "L-31", 6),
        ("0 0 0 ?* * MON", "day-of-month", "?*", 6),
        ("0 0 ? * *", "day-of-month", "?", 4),
        ("0 0 15W * *", "day-of-month", "15W", 4),
        ("0 0 * * 8", "day-of-week", "8", 8),
        ("0 0 * * MONL", "day-of-week", "MONL", 8),
        ("1,, * * * *", "minute", "missing", 2),
        ("\u0661 * * * *", "", "\u0661", 0),
        ("@reboot", "", "@reboot", 0),
        ("* * *", "", "3", None),
        ("", "", "0", None),
        ("* * * * * ? * *", "", "8", None),
    ],
)
def test_refusals_name_the_field_and_the_value(text: str, field: str, value: str, column: int | None):
    """What cannot be honoured is refused with a message that names the field, the value and the place."""
    with pytest.raises(ExpressionError) as refusal:
        parse_cron(text)
    assert refusal.value.message.startswith(field)
    assert value in refusal.value.message
    assert refusal.value.column == column
    assert refusal.value.code == "invalid"


@each_row(
    ("text", "dialect", "normal"),
    [
        ("0 0 9 * * ?", "quartz", "0 0 9 * * ?"),
        ("0 0 9 ? * *", "quartz", "0 0 9 * * ?"),
        ("0 0 9 * * *", "quartz", "0 0 9 * * ?"),
        ("0 0 9 * * mon-Fri", "quartz", "0 0 9 ? * MON-FRI"),
        ("0 0 9 15w * *", "quartz", "0 0 9 15W * ?"),
        (" 00\t05  9 ? jan 2#1  2024 \n", "quartz", "0 5 9 ? JAN 2#1 2024"),
        ("0 0 9 * * ? *", "quartz", "0 0 9 * * ?"),
        ("0 /5 9 L-0 * ?", "quartz", "0 */5 9 L * ?"),
        ("0 0 9 ? * L", "quartz", "0 0 9 ? * SAT"),
        ("*/5 * * * *", "unix", "*/5 * * * *"),
        ("0 0 * * 7", "unix", "0 0 * * 7"),
        ("@Daily", "unix", "0 0 * * *"),
    ],
)
def test_dialect_and_normal_form(text: str, dialect: str, normal: str):
    """The number of fields decides the dialect; `*` in a day field of Quartz is echoed as `?`."""
    cron = parse_cron(text)
    assert (cron.dialect, cron.normal_form) == (dialect, normal)
    assert parse_cron(normal) == cron


@each_row("macro", sorted(MACROS))
def test_macros_are_unix(macro: str):
    """A macro is `unix`."""
    assert parse_cron(macro).dialect == "unix"


@each_row(
    "text",
    [
        "0 0 30 2 *",
        "0 0 0 31 2,4,6,9,11 ?",
        "0 0 0 29 2 ? 2023,2100",
        "0 0 0 L-29 2 ?",
        "0 0 0 ? 2 1#5 2024-2031",
    ],
)
def test_what_never_fires_is_refused(text: str):
    """No moment at all from 1970 to 2199: `never_fires`."""
    with pytest.raises(ExpressionError) as refusal:
        parse_cron(text)
    assert refusal.value.code == "never_fires"


@given(st.text(alphabet="0123456789*/-,?LW# @SUNMOFRIJA\t.x²", max_size=40) | st.text(max_size=30))
def test_random_text_is_read_or_refused(text: str):
    """Nothing but ExpressionError is raised, and what is read has a normal form that is a fixed point."""
    try:
        cron = parse_cron(text)
    except ExpressionError as refusal:
        assert refusal.message  # noqa: PT017
        return
    again = parse_cron(cron.normal_form)
    assert (again, again.normal_form) == (cron, cron.normal_form)
