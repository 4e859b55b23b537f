"""Calendars at their ends and where a day is missing, and words for odd numbers (SPEC section 3)."""

from datetime import UTC, datetime

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY, HOUR, as_moment
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.occurrences import following
from scheduler_service.timing.timer import TimerText, compile_timer
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row


def at(year: int) -> int:
    return as_moment(datetime(year, 6, 1, tzinfo=UTC))


@each_row(
    ("expression", "year"),
    [("0 0 0 1 1 ? 2030", 2030), ("0 0 0 1 1 ?", 2199), ("0 0 0 1 1 ?", 2205)],
)
def test_there_is_an_end(expression: str, year: int) -> None:
    """After the last year of the expression, or of the calendar, nothing follows."""
    assert parse_cron(expression).next(at(year), load_zone("UTC")) is None


@each_row(("expression", "year"), [("0 0 0 1 1 ? 2030", 2029), ("0 0 0 1 7 ?", 1970)])
def test_there_is_a_beginning(expression: str, year: int) -> None:
    """Before the first year of the expression, or of the calendar, nothing was."""
    assert parse_cron(expression).previous(at(year), load_zone("UTC")) is None


def test_a_day_that_a_zone_left_out() -> None:
    """Samoa had no 30 December 2011: what it held fires at the first instant after it, then all goes on."""
    text = TimerText(due_time="2005-06-01 12:00:00", period="P1D", timezone="Pacific/Apia")
    timer = compile_timer(text, default_zone="UTC")
    moment = as_moment(datetime(2011, 12, 25, tzinfo=UTC))
    found = []
    while len(found) < 2_000:
        after = following(timer, Cursor(0, moment))
        assert after is not None
        found.append(after - moment)
        moment = after
    assert set(found[1:]) == {DAY, DAY - HOUR, DAY + HOUR, 12 * HOUR}
    assert found.count(12 * HOUR) == 2
