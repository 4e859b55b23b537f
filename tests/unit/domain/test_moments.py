"""How moments are written (SPEC section 10)."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.moments import as_moment, rfc3339
from tests.rows import each_row


@each_row(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_767_225_600_001, "2026-01-01T00:00:00.001Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (-59_243_913_900_000, "0092-08-19T13:15:00.000Z"),
    ],
)
def test_a_moment_has_a_year_of_four_digits_and_milliseconds(moment: int, text: str) -> None:
    """RFC 3339 in UTC with milliseconds, in any year (SPEC section 10)."""
    assert rfc3339(moment) == text


@settings(deadline=None)
@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_what_is_written_is_read_as_the_same_moment(value: datetime) -> None:
    """Any moment survives the way to its text and back."""
    moment = as_moment(value.replace(tzinfo=UTC))
    assert as_moment(datetime.fromisoformat(rfc3339(moment))) == moment
