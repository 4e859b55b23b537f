"""Days out of iCalendar files and lists of dates (SPEC sections 3, 16)."""

import pytest

from scheduler_service.domain.errors import Problem
from scheduler_service.timing.calendar_days import FREE, WORK, write_spans
from scheduler_service.timing.icalendar import ReadDays, read_days
from tests.rows import each_row

YEARS = range(2025, 2032)


def read(text: str, kind: str = FREE) -> tuple[ReadDays, list[Problem]]:
    problems: list[Problem] = []
    return read_days(text, kind, YEARS, problems), problems


def events(*properties: str) -> str:
    """A file with an event of each of these, whose lines are joined by blanks."""
    shown = (f"BEGIN:VEVENT\r\n{one.replace('|', chr(13) + chr(10))}\r\nEND:VEVENT\r\n" for one in properties)
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{''.join(shown)}END:VCALENDAR\r\n"


@each_row(
    ("event", "expected"),
    [
        ("DTSTART;VALUE=DATE:20261001|DTEND;VALUE=DATE:20261008", ["2026-10-01/2026-10-07"]),
        ("DTSTART:20261001|SUMMARY:its type is not written", ["2026-10-01"]),
        ("DTSTART;VALUE=DATE:20261001|DTEND;VALUE=DATE:20261001", ["2026-10-01"]),
        ("DTSTART;VALUE=DATE:20261001|DURATION:P1W", ["2026-10-01/2026-10-07"]),
        (
            'DTSTART;TZID="Asia/Shang:hai";X=1,2:20261001T000000|DTEND:20261003T000000',
            ["2026-10-01/2026-10-02"],
        ),
        ("DTSTART:20261001|DTEND:202610| 05", ["2026-10-01/2026-10-04"]),
        ("dtstart:20261001|BEGIN:VALARM|DTSTART:20270101|END:VALARM", ["2026-10-01"]),
        ("DTSTART:20261001|STATUS:CANCELLED", []),
        (
            "DTSTART:19701225|RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25",
            ["1970-12-25"] + [f"{one}-12-25" for one in YEARS],
        ),
        ("DTSTART:19001225|RRULE:FREQ=YEARLY;UNTIL=20261224T235959Z", ["2025-12-25"]),
        ("DTSTART:20260101|RRULE:FREQ=YEARLY;COUNT=2", ["2026-01-01", "2027-01-01"]),
        ("DTSTART:20260101|RRULE:FREQ=YEARLY;INTERVAL=3", ["2026-01-01", "2029-01-01"]),
        ("DTSTART:20240229|RRULE:FREQ=YEARLY;COUNT=2", ["2024-02-29", "2028-02-29"]),
        ("DTSTART:20300101|RRULE:FREQ=YEARLY|EXDATE;VALUE=DATE:20310101", ["2030-01-01"]),
    ],
)
def test_whole_days_and_dates_of_each_year_are_read(event: str, expected: list[str]) -> None:
    found, problems = read(events(event))
    assert problems == []
    assert list(write_spans(found.free)) == expected


@each_row(
    ("text", "said"),
    [
        (events("DTSTART:20261001T090000|SUMMARY:Fair"), "line 3: the event 'Fair': '20261001T090000'"),
        (events("DTSTART:20261001|RRULE:FREQ=YEARLY;BYDAY=4TH"), "RRULE 'FREQ=YEARLY;BYDAY=4TH' is not read"),
        (events("DTSTART:20261001|RRULE:FREQ=MONTHLY"), "is not read"),
        (events("DTSTART:20261001|RRULE:FREQ=YEARLY;COUNT=0"), "COUNT of its RRULE is '0'"),
        (events("DTSTART:20261001|RDATE:20261002"), "RDATE is not read"),
        (events("DTSTART:20261001|EXDATE:20261001"), "EXDATE without RRULE"),
        (events("DTSTART:20261001|RECURRENCE-ID:20261001"), "RECURRENCE-ID is not read"),
        (events("DTSTART:20260230"), "is not in the calendar"),
        (events("DTSTART:19690101"), "is not within 1970 and 2199"),
        (events("DTSTART:00010101|RRULE:FREQ=YEARLY"), "is before 1900"),
        (events("DTSTART:20261008|DTEND:20261001"), "it ends before it begins"),
        (events("DTSTART:20261001|DURATION:PT24H"), "is not of whole days"),
        (events("SUMMARY:nothing"), "it has no DTSTART"),
        (events("DTSTART:20261001|no line"), "line 5: 'no line' is no line of an iCalendar file"),
        (events("DTSTART:20261001")[:-15], "it is not whole"),
        ("BEGIN:VCALENDAR\nEND:VEVENT\n", "ends nothing that has begun"),
        ("2026-10-01\n2026-13-01", "line 2: '2026-13-01' is not in the calendar"),
        ("tomorrow", "line 1: 'tomorrow' is no date"),
        ("2026-10-07/2026-10-01", "'2026-10-07/2026-10-01' ends before it begins"),
        ("2026-01-01/2027-01-02", "'2026-01-01/2027-01-02' has more than 366 days"),
        (events("DTSTART:20260101|DTEND:20280101"), "it has more than 366 days"),
    ],
)  # fmt: skip
def test_what_would_be_misread_is_refused_by_line(text: str, said: str) -> None:
    """So that no holiday is missing unseen."""
    _, problems = read(text)
    assert len(problems) == 1
    assert said in problems[0].message


def test_a_list_has_a_date_or_range_a_line() -> None:
    """With names behind them, comments and empty lines."""
    found, problems = read(
        "\ufeff# ours\n2026-10-01/2026-10-03, National Day\n\n  2026-12-25 # Christmas\n", WORK
    )
    assert problems == []
    assert (found.format, found.free) == ("dates", frozenset())
    assert list(write_spans(found.work)) == ["2026-10-01/2026-10-03", "2026-12-25"]


@pytest.mark.parametrize("kind", [FREE, WORK])
def test_days_that_a_file_marks_are_what_it_says(kind: str) -> None:
    """Days off and make-up days; those with a name alone are left out."""
    mark = "DTSTART:{}|SUMMARY:{}|X-APPLE-SPECIAL-DAY:{}"
    found, problems = read(
        events(
            mark.format("20261001", "off", "WORK-HOLIDAY"),
            mark.format("20261010", "worked", "ALTERNATE-WORKDAY"),
            "DTSTART:20260214|SUMMARY:Valentine",
        ),
        kind,
    )
    assert problems == []
    assert list(write_spans(found.free)) == ["2026-10-01"]
    assert list(write_spans(found.work)) == ["2026-10-10"]
    assert found.left_out == ("Valentine",)


def test_so_much_is_read_and_so_many_faults_are_named() -> None:
    """Twenty; a file with more than 5,000 events is refused as one."""
    assert len(read("x\n" * 1_000)[1]) == 20
    (problem,) = read(events(*["DTSTART:20261001"] * 5_001))[1]
    assert "more than 5000 events" in problem.message
    assert read(events(*["DTSTART:20261001"] * 5_000))[1] == []
