"""Times as text (SPEC section 3)."""

import pytest

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import rfc3339
from scheduler_service.timing.times import local_text, parse_time
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row


@each_row(
    ("text", "zone", "utc"),
    [
        ("2023-10-01 09:00:01", "Asia/Shanghai", "2023-10-01T01:00:01.000Z"),
        ("2023-10-1 09:00:01", "Asia/Shanghai", "2023-10-01T01:00:01.000Z"),
        ("2023-10-1 9:00:01.5", "UTC", "2023-10-01T09:00:01.500Z"),
        ("2023-10-01T09:00:01", "Asia/Shanghai", "2023-10-01T01:00:01.000Z"),
        ("2023-10-01T09:00:01Z", "Asia/Shanghai", "2023-10-01T09:00:01.000Z"),
        ("2023-10-01t09:00:01.123456z", "Asia/Shanghai", "2023-10-01T09:00:01.123Z"),
        ("2023-10-01 09:00:01-08:00", "UTC", "2023-10-01T17:00:01.000Z"),
        ("2023-10-01T09:00:01+05:30", "UTC", "2023-10-01T03:30:01.000Z"),
        ("2024-03-31 02:30:00", "Europe/Berlin", "2024-03-31T01:00:00.000Z"),
        ("2024-10-27 02:30:00", "Europe/Berlin", "2024-10-27T00:30:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "UTC", "1969-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_local_unless_they_have_an_offset(text: str, zone: str, utc: str) -> None:
    """Local to `timezone`; a skipped time is the gap's end, a doubled one its first (SPEC section 3)."""
    assert rfc3339(parse_time(text, load_zone(zone))) == utc


@each_row(
    "text",
    [
        *("", "2023-10-01", "09:00:01", "2023-02-29 09:00:01", "2023-13-01 09:00:01", "2023-10-01 24:00:00"),
        *("2023-10-01 09:60:00", "2023-10-01 09:00:60", "2016-12-31T23:59:60Z", "23-10-01 09:00:01"),
        *(
            "2023-10-01 09:00:01 ",
            "2023-10-01  09:00:01",
            "2023-10-01 09:00:01 UTC",
            "2023-10-01T09:00:01+0800",
        ),
        *(
            "2023-10-01T09:00:01+25:00",
            "2023-10-01T09:00:01+00:60",
            "0000-01-01 00:00:00",
            "20231001T090001Z",
        ),
        *(
            "2023-10-1T09:00:01Z",
            "2023-10-01T9:00:01Z",
            "２023-10-01 09:00:01",
            "2023-10-01T09:00:01Z\n",
            "5m",
        ),
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_other_times_are_refused(text: str) -> None:
    """SPEC section 3: the forms are strict, and so is the calendar."""
    with pytest.raises(ExpressionError):
        parse_time(text, load_zone("UTC"))


def test_local_text_names_its_offset() -> None:
    """SPEC section 3: local and UTC times are shown."""
    moment = parse_time("2023-10-01T09:00:01.250Z", load_zone("UTC"))
    assert local_text(moment, load_zone("Asia/Shanghai")) == "2023-10-01T17:00:01.250+08:00"
    assert local_text(moment, load_zone("America/New_York")) == "2023-10-01T05:00:01.250-04:00"
    assert local_text(moment, load_zone("UTC")) == "2023-10-01T09:00:01.250+00:00"
