"""Durations and moments on the command line (SPEC section 16)."""

from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
import typer

from scheduler_service.cli.errors import CommandError
from scheduler_service.cli.options import (
    Commands,
    find_seconds,
    read_ago,
    read_ahead,
    read_pairs,
    read_seconds,
    read_span,
)
from tests.rows import each_row
from tests.unit.cli.running import Ran


@each_row(
    ("given", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        (60, 60),
        ("90s", 90),
        ("1h30m", 5400),
        ("1d", 86_400),
        ("PT1H", 3600),
        ("P1D", 86_400),
    ],
)
def test_a_duration_is_seconds_or_has_units(given: str | float, seconds: float) -> None:
    """As in definitions, and plain numbers beside them (16)."""
    assert read_seconds(given) == seconds


@each_row("given", ["", "soon", "-1", "P1M", "1.2.3", "٣"])
def test_what_is_no_duration_is_refused(given: str) -> None:
    """Months have no fixed length."""
    with pytest.raises(typer.BadParameter, match="write seconds as 90, or 90s"):
        read_seconds(given)


def test_a_duration_in_other_words_gets_its_remedy() -> None:
    """Also where a moment may be given: no service reads it as one (16)."""
    with pytest.raises(typer.BadParameter, match="; write '5m'"):
        read_seconds("5 minutes")
    with pytest.raises(CommandError, match=r"'5 minutes' is neither a duration, .*; write '5m'") as caught:
        read_ago("5 minutes")
    assert caught.value.code == 2
    with pytest.raises(CommandError, match="as seconds since 1970 it is '2026-02-01T01:00:00Z'"):
        read_ahead("1769907600")
    assert read_ago("yesterday") == "yesterday"
    # Ago or ahead; a moment stays as it is
    now = datetime.now(UTC)
    ago, ahead = read_ago("1h"), read_ahead("P1D")
    assert ago is not None
    assert ahead is not None
    assert abs(datetime.fromisoformat(ago) - now + timedelta(hours=1)) < timedelta(minutes=1)
    assert abs(datetime.fromisoformat(ahead) - now - timedelta(days=1)) < timedelta(minutes=1)
    assert read_ago("2026-01-31T09:00:00Z") == "2026-01-31T09:00:00Z"
    assert read_ago(None) is None
    assert find_seconds("2026-01-31") is None
    with pytest.raises(CommandError, match="leads out of the calendar"):
        read_ahead("P3000000D")


def test_a_span_that_ends_before_it_begins_names_its_options() -> None:
    """As they were given; what is no moment is left to the service."""
    for since, until in (("1h", "2h"), ("2026-02-01", "2026-01-31T09:00:00Z"), ("1h", "2026-01-01")):
        with pytest.raises(CommandError, match=f"--since {since} is after --until {until}: "):
            read_span(since, until)
    for since, until in (("2026-01-31", "2026-02-01T00:00:00Z"), ("yesterday", "2026-01-01"), (None, "1h")):
        assert read_span(since, until)["from"] == since
    assert read_span(None, None) == {"from": None, "to": None}


def test_a_wrong_duration_names_its_option(ran: Ran) -> None:
    """Exit code 2, before anything is sent (16)."""
    code, out, err = ran("jobs", "trigger", "a", "--timeout", "soon")
    assert (code, out) == (2, "")
    assert "--timeout" in err


@each_row(("output", "printed"), [("table", ["1", "2"]), ("json", ['"1"', '"2"'])])
def test_what_comes_one_by_one_is_printed_as_it_comes(output: str, printed: list[str]) -> None:
    """Each value is out before the next one is made: what follows may take long (16)."""
    app, out = Commands(), StringIO()

    @app.command(page=print)
    def count() -> Iterator[str]:
        yield "1"
        assert out.getvalue().split() == printed[:1]
        yield "2"

    with redirect_stdout(out):
        app(["--output", output], standalone_mode=False)
    assert out.getvalue().split() == printed


def test_parameters_are_json_or_text() -> None:
    """A value that is valid JSON is sent as JSON (16)."""
    assert read_pairs(["a=3", "b=x y", "c=[1]", "d="]) == {"a": 3, "b": "x y", "c": [1], "d": ""}
    # Which of the two is meant is not to be guessed
    with pytest.raises(CommandError, match="NAME 'a' is given twice") as caught:
        read_pairs(["a=1", "b=1", "a=2"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("jobs", "get", ""), "JOB_ID '' is no id of a job; use 1 to 128 of letters"),
        (("jobs", "get", "../settings"), "JOB_ID '../settings' is no id of a job; use 1 to 128 of letters"),
        (("jobs", "trigger", "a/b"), "JOB_ID 'a/b' is no id of a job; use 1 to 128 of letters"),
        (("executions", "get", ".."), "EXECUTION '..' is no id of an execution; use the id"),
        (("deliveries", "resend", ""), "DELIVERY_ID '' is no id of a delivery; use the id"),
        (("queues", "get", "a/b"), "NAME 'a/b' is no name of a queue; use 1 to 128 of letters"),
        (("services", "get", "."), "NAME '.' is no name of a service; use 1 to 128 of letters"),
    ],
)
def test_a_name_that_nothing_can_have_is_refused(ran: Ran, arguments: tuple[str, ...], text: str) -> None:
    """Exit code 2, before anything is sent: no service is at the address (16)."""
    code, out, err = ran(*arguments, "--url", "http://127.0.0.1:1")
    assert (code, out) == (2, "")
    assert err.startswith(f"punctual: {text}")
