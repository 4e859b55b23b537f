"""The parts of a cron expression from which sentences are made."""

from scheduler_service.timing.cron import parse_cron
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


def test_fields_of_each_dialect() -> None:
    """What a dialect lacks has its fixed value; Sunday has its own number."""
    unix, quartz = split(parse_cron("30 2 * * 7")), split(parse_cron("1 0 9 1 10 ? 2023"))
    assert (unix.second, unix.minute, unix.hour, unix.year, unix.sunday) == ("0", "30", "2", "*", 0)
    assert (quartz.second, quartz.date, quartz.year, quartz.sunday) == ("1", "1", "2023", 1)


def test_what_a_field_says() -> None:
    """Numbers, repetitions in their plainest spelling, and days that restrict nothing."""
    assert (numbers("10,5,5"), numbers("1-3")) == ([5, 10], [])
    assert [even(text, 60) for text in ("0/5", "*/1", "0/60", "3")] == ["*/5", "*", "0", "3"]
    assert [repeats(text) for text in ("*", "*/2", "5")] == [True, True, False]
    assert gathered("1,2,1") == ["1", "2"]
    assert [is_open(text) for text in ("?", "1,*", "1")] == [True, True, False]


def test_times_of_a_day_are_told_while_they_are_few() -> None:
    """Six at most, none of them a repetition."""
    assert clocks(split(parse_cron("1 0 9,18 * * ?"))) == ["09:00:01", "18:00:01"]
    assert len(clocks(split(parse_cron("0,30 1,2,3 * * *")))) == 6
    assert clocks(split(parse_cron("0,30 1,2,3,4 * * *"))) == []
    assert clocks(split(parse_cron("* 0 9 * * ?"))) == []


def test_only_the_units_that_say_something_are_told() -> None:
    """The finest first; an hour that is each one goes without saying beside a repetition."""
    assert cadence(split(parse_cron("*/5 * * * *"))) == [("minute", "*/5")]
    assert cadence(split(parse_cron("0 30 0/2 * * ?"))) == [("minute", "30"), ("hour", "*/2")]
    assert cadence(split(parse_cron("5 * * * * ?"))) == [("second", "5"), ("minute", "*")]
    assert cadence(split(parse_cron("* * * * * ?"))) == [("second", "*")]
    assert cadence(split(parse_cron("@hourly"))) == [("hour", "*")]
