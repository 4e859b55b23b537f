"""What is said of a cron expression that can be read, but was probably meant otherwise (SPEC section 3)."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.timing.cron import parse_cron
from scheduler_service.timing.cron_warnings import find_warnings
from scheduler_service.timing.timer import TimerText, compile_timer
from tests.rows import each_row


def doubts(text: str) -> list[tuple[str, str]]:
    return list(find_warnings(text, parse_cron(text)))


@each_row(
    ("text", "instead"),
    [
        ("*/5 * * * * *", "*/5 * * * *"),
        ("* * * * * *", "* * * * *"),
        ("0 9 * * * ?", "0 9 * * *"),
        ("0 9 * * * *", "0 9 * * *"),
        ("15 7 * ? * *", "15 7 * * *"),
        ("30 9 * * 1-5 *", "30 9 * * 1-5"),
        ("0 9 * * 1 ?", "0 9 * * 1"),
        ("0 0 * * 1 ?", "0 0 * * 1"),
    ],
)
def test_the_habit_of_five_fields_is_noticed(text: str, instead: str) -> None:
    """Six fields begin with the second: what looks as if the minute came first says what it does instead."""
    [(code, message)] = doubts(text)
    assert code == "second_first"
    assert message.endswith(f"write {instead!r}")
    parse_cron(instead)


@each_row(
    ("text", "code", "said"),
    [
        ("* 0 9 * * ?", "every_second", "every second in minute 0 in hour 9"),
        ("* * 9 * * ?", "every_second", "every second in hour 9"),
        ("* 0 9 * * ? 2030", "every_second", "2030"),
        ("*/90 * * * *", "step_too_long", "the step of '*/90' is longer than its field: it fires every hour"),
        ("0 */24 * * *", "step_too_long", "it fires at hour 0"),
        ("0 0 9 ? * 1-5", "weekday_numbers", "'1-5' is 'SUN-THU', not 'MON-FRI'; write names"),
        ("0 0 9 ? * 7", "weekday_numbers", "'7' is 'SAT', not 'SUN'"),
        ("0 0 9 * * 5-7", "weekday_numbers", "'5-7' is 'THU-SAT', not 'FRI-SUN'"),
        ("0 0 9 ? * 1,3,5 2030", "weekday_numbers", "'1,3,5' is 'SUN,TUE,THU', not 'MON,WED,FRI'"),
        ("0 0 9 ? * 6L", "weekday_numbers", "'6L' is 'FRIL', not 'SATL'"),
        ("0 0 9 ? * 6#3", "weekday_numbers", "'6#3' is 'FRI#3', not 'SAT#3'"),
        ("0 0 9 ? * 2/2", "weekday_numbers", "'2/2' is 'MON/2', not 'TUE/2'"),
    ],
)
def test_what_fires_otherwise_than_it_looks_is_said(text: str, code: str, said: str) -> None:
    """A `*` as the second fires sixty times in a row; a step beyond its field has no second value."""
    [found] = doubts(text)
    assert found[0] == code
    assert said in found[1]


@each_row(
    "text",
    [
        "*/5 * * * * ?",
        "* * * * * ?",
        "0 * * * * ?",
        "0 15 * * * ?",
        "0 30 * * * ?",
        "0 0 * * * *",
        "0 */5 * * * *",
        "0 0/5 14,18 * * ?",
        "0 0 9 * * MON-FRI",
        "0 0 9 ? * FRI#3",
        "0 0 9 ? * */2",
        "0 0 9 ? * L",
        "0 0 9 ? * 1-7",
        "0 9 * * 1-5",
        "0 30 2 * * ?",
        "0/10 30 9 * * ?",
        "0 9 * * * ? 2030",
        "* 9 * * *",
        "*/59 */23 * * *",
        "0 0 1-31/4 * *",
        "0 9 * 8 8 ?",
        "0 9 * * 8 ?",
        "0 30 * * 1-5 ?",
        "@hourly",
    ],
)
def test_what_is_usual_is_not_doubted(text: str) -> None:
    """No warning with `?`, which shows that six fields are meant: frequent warnings are not read."""
    assert doubts(text) == []


@given(
    st.lists(st.sampled_from(["0", "9", "*", "?", "MON", "1-5", "*/5", "*/99", "L"]), min_size=5, max_size=7)
)
def test_a_doubt_refuses_nothing(fields: list[str]) -> None:
    """Whatever is read is compiled, with its doubts as warnings below `/period`."""
    text = " ".join(fields)
    try:
        cron = parse_cron(text)
    except ExpressionError:
        return
    timer = compile_timer(TimerText(due_time="0s", period=text), default_zone="UTC")
    assert timer.cron == cron
    assert [(one.pointer, one.code) for one in timer.warnings] == [
        ("/period", code) for code, _ in find_warnings(text, cron)
    ]
