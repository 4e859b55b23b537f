"""What to write instead of a timer that is refused (SPEC section 3: in words that help)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.errors import DefinitionError, ExpressionError
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.cron_hints import advise
from scheduler_service.timing.durations import parse_duration
from scheduler_service.timing.timer import TimerText, compile_timer
from tests.rows import each_row


def refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse_cron(text)
    return caught.value


@each_row(
    ("text", "instead"),
    [
        # Five-field habits in six fields.
        ("0 9 * * MON ?", "0 9 * * MON"),
        ("0 9 * * 0 *", "0 9 * * 0"),
        ("0 9 * * 1 2026", "0 0 9 ? * MON 2026"),
        # Day-of-week 0 in Quartz.
        ("0 30 2 * * 0", "0 30 2 ? * SUN"),
        ("0 30 2 ? * 0-4", "0 30 2 ? * SUN-THU"),
        ("0 30 2 ? * 1,0,7 2030", "0 30 2 ? * MON,SUN,SUN 2030"),
        # The second left out.
        ("15 10 ? * MON-FRI", "0 15 10 ? * MON-FRI"),
        # A comma missing between two values, or a blank beside one.
        ("0 0 9 * * MON FRI", "0 0 9 * * MON,FRI"),
        ("0 0 9, 12 * * ?", "0 0 9,12 * * ?"),
        # Spellings.
        ("0 0 9 * * Monday", "0 0 9 * * Mon"),
        ("0 0 9 1 January ?", "0 0 9 1 Jan ?"),
        ('"0 0 9 * * ?";', "0 0 9 * * ?"),
        # Time zones.
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", "0 9 * * *"),
        ("TZ=UTC 0 0 9 * * ?", "0 0 9 * * ?"),
        ("0 9 * * MON-FRI UTC", "0 9 * * MON-FRI"),
        ("0 0 9 * * ? Asia/Tokyo", "0 0 9 * * ?"),
        # Durations.
        ("rate(5 minutes)", "5m"),
        ("rate(1 hour)", "1h"),
        ("1,5 h", "1.5h"),
        # Amazon EventBridge: the minute first, the year last.
        ("cron(0 9 * * ? *)", "0 0 9 * * ?"),
        ("cron(0/15 9-17 ? * MON-FRI *)", "0 0/15 9-17 ? * MON-FRI"),
        ("cron(0 9 ? * 2-6 2030)", "0 0 9 ? * 2-6 2030"),
        ("CRON(0 9 * * *)", "0 9 * * *"),
        ("0 9 L * ? *", "0 0 9 L * ?"),
        # Jenkins.
        ("H * * * *", "0 * * * *"),
        ("H/15 H(8-15)/2 * * 1-5", "*/15 8-15/2 * * 1-5"),
        ("H(0-29)/10 * * * *", "0-29/10 * * * *"),
        ("H H(4-7) H * *", "0 4 1 * *"),
        ("TZ=Asia/Tokyo\nH 8 * * *", "0 8 * * *"),
        ("@every 5m", "5m"),
        ("5 m", "5m"),
        ("every 5 minutes", "5m"),
        ("2 weeks", "P2W"),
    ],
)
def test_a_mistake_that_people_make_gets_its_remedy(text: str, instead: str) -> None:
    """The message names what to write instead, and that can be read."""
    assert refusal(text).full_message.endswith(f"write {instead!r}")


@each_row("text", ['"0 9 * * *"', "0 9 * * *;", "0 9 * * * CRON_TZ=UTC"])
def test_signs_around_an_expression_are_not_taken_for_the_h_of_jenkins(text: str) -> None:
    """The reason names what is wrong with this text."""
    assert refusal(text).full_message.endswith("; the fields stand alone: write '0 9 * * *'")


def test_a_time_zone_in_front_is_called_one() -> None:
    """Crontabs have it there; it is no second that cannot be read."""
    message = refusal("CRON_TZ=Asia/Tokyo 0 9 * * *").message
    assert message == "a cron expression has no time zone, as 'CRON_TZ=Asia/Tokyo'; give it as timezone"
    # Quartz allows one of them
    message = refusal("0 0 9 1 * MON").full_message
    assert "both are given ('1' and 'MON'); write '?' in one of them (column 11)" in message


@each_row(
    "text",
    ["0 */90 * * * ?", "0 0 9 12 15 * ? *", "61 * * * * ?", "0 0 9 ? * 8", "x", "", "every day", "every 5 x"],
)
def test_there_is_no_advice_where_nobody_knows(text: str) -> None:
    """Rather none than one that means something else: no hour in steps of 90, no comma of several."""
    assert refusal(text).advice == ""


def test_a_long_text_gets_no_advice() -> None:
    """A hostile text costs no search for what was meant."""
    assert advise("0 9 * * MON ?") != ""
    assert advise("0 9 * * MON ?" + " " * 100) == ""


@given(
    st.lists(st.sampled_from(["0", "9", "*", "?", "MON", "0-4", "1,15", "*/5", "2030", "L", "x"]), max_size=8)
)
def test_advice_can_be_followed(fields: list[str]) -> None:
    """Whatever is suggested is itself read as cron or as a duration."""
    text = " ".join(fields)
    try:
        parse_cron(text)
    except ExpressionError as error:
        if "write '" not in error.advice:
            return
        instead = error.advice.partition("write '")[2].removesuffix("'")
        try:
            parse_cron(instead)
        except ExpressionError as again:
            if again.code != "never_fires":
                parse_duration(instead)


@each_row(
    ("due", "period", "said"),
    [
        ("0s", "timeing", "the kind follows from dueTime and period"),
        ("0s", "cron", "the kind follows from dueTime and period"),
        ("0s", "External", "write it 'external'"),
        ("0s", "-5m", "a cron expression or external"),
        ("0s", "5min", "write '5m'"),
        ("2 Hours", "5m", "write '2h'"),
        ("0s", "1w", "write 'P1W'"),
        ("0s", "5", "name the unit: 5s, 5m, 5h or 5d"),
        ("0s", "1H30M", "write '1h30m'"),
        ("0s", "5M", "write '5m' for minutes, 'P5M' for months"),
        (" 5s ", "5m", "write '5s'"),
        ("pt5m", "5m", "write 'PT5M'"),
        ("-5m", "5m", "never negative"),
        ("0s", "-5m", "never negative"),
        ("0s", "5 parsecs", "has 2"),
        ("5parsecs", "5m", "P1DT1H20M10S"),
        ("0s", "0 0 9 ? * 0", "(column 11); in six fields Sunday is 1"),
    ],
)
def test_a_timer_that_is_refused_says_what_to_write(due: str, period: str, said: str) -> None:
    """`timeing` is a kind, which is not written down; units have one spelling; columns count from 1."""
    with pytest.raises(DefinitionError) as caught:
        compile_timer(TimerText(due_time=due, period=period), default_zone="UTC")
    (problem,) = caught.value.problems
    assert said in problem.message
