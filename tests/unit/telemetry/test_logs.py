"""A line of the log: its form, its level, and what becomes of a flood."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.telemetry.log_events import VOCABULARY
from scheduler_service.telemetry.log_summaries import FULL, LINE_SECONDS
from scheduler_service.telemetry.logs import (
    EventLog,
    LibraryLogs,
    host_of,
    safe_message,
    take_library_logs,
    told_message,
)
from tests.rows import each_row


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class World:
    """A log in memory, and its clock."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.stream = io.StringIO()
        self.log = EventLog(stream=self.stream, clock=lambda: self.now, **options)

    def lines(self) -> list[dict[str, Any]]:
        """All lines, as values."""
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def world() -> World:
    return World()


def test_a_line_begins_with_when_how_much_and_what(world: World) -> None:
    """The level is that of the word."""
    world.log("ready", jobsHeld=3)
    world.log("store_not_written", error="refused")
    first, second = world.lines()
    assert list(first) == ["timestamp", "level", "event", "jobsHeld"]
    assert first["timestamp"].endswith("Z")
    assert (first["level"], second["level"]) == ("info", "error")
    # A test finds them, but no line is lost
    world = World(level="error")
    world.log("elephant_seen", where="here")
    assert [(line["level"], line["event"]) for line in world.lines()] == [("warning", "elephant_seen")]


@each_row(
    ("level", "seen"),
    [
        ("debug", ["ready", "worker_not_stopped", "turn_failed"]),
        ("info", ["ready", "worker_not_stopped", "turn_failed"]),
        ("warning", ["worker_not_stopped", "turn_failed"]),
        ("error", ["turn_failed"]),
    ],
)
def test_what_is_below_the_level_is_not_written(level: str, seen: list[str]) -> None:
    """By the word alone."""
    world = World(level=level)
    for word in ("ready", "worker_not_stopped", "turn_failed"):
        world.log(word)
    assert [line["event"] for line in world.lines()] == seen


def test_the_form_is_that_of_the_stream_or_the_given_one() -> None:
    """Text on a terminal, else JSON; both where they are asked for."""
    plain, terminal = io.StringIO(), Terminal()
    EventLog(stream=terminal)("ready")
    EventLog(stream=plain, form="text")("ready", jobsHeld=3)
    assert "\x1b[" in terminal.getvalue()
    assert plain.getvalue().split()[1:] == ["[info", "]", "ready", "jobsHeld=3"]
    forced = Terminal()
    EventLog(stream=forced, form="json")("ready")
    assert json.loads(forced.getvalue())["event"] == "ready"


@each_row("form", ["json", "text"])
def test_a_value_can_neither_end_a_line_nor_steer_a_terminal(form: Any) -> None:
    """Whatever a target or a caller wrote into it, and under whatever name it comes."""
    stream = io.StringIO()
    log = EventLog(stream=stream, form=form)
    log(
        "turn_failed", error="a\nb\r\x1b[2J", stack="c\nd", exception="e\nf", exc_info="g\nh", jobId="\u2028x"
    )
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


def test_nothing_that_is_written_raises() -> None:
    """Not a closed stream, not a value without a text, not a key that every line has."""

    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    world = World()
    world.log("turn_failed", error=Bad())
    world.log("turn_failed", level="x", timestamp=1)
    assert [line["level"] for line in world.lines()] == ["error"]
    world.stream.close()
    world.log("ready")


def test_of_a_flood_ten_lines_are_written_and_the_others_counted(world: World) -> None:
    """The next line brings their number, after ten seconds; then lines are written again."""
    for number in range(10_000):
        world.log("turn_failed", jobId=f"j{number}")
    assert len(world.lines()) == FULL
    world.now += LINE_SECONDS
    world.log("turn_failed", jobId="later")
    [total, later] = world.lines()[FULL:]
    assert (total["event"], total["of"], total["more"]) == ("lines_omitted", "turn_failed", 9_990)
    assert total["level"] == "error"
    assert later["jobId"] == "later"


def test_a_line_that_somebody_asked_for_is_always_written() -> None:
    """However many there are."""
    asked_for = next(name for name, word in VOCABULARY.items() if word.is_asked_for)
    world = World()
    for _ in range(2 * FULL):
        world.log(asked_for)
    assert len(world.lines()) == 2 * FULL


def test_what_was_omitted_of_trouble_is_counted_before_its_end(world: World) -> None:
    """A sum behind the line that all is well again would read as trouble that goes on."""
    for _ in range(100):
        world.log("history_not_written", error="full")
    world.log("history_written_again")
    world.now += LINE_SECONDS
    world.log("ready")
    lines = world.lines()
    said = [line["event"] for line in lines]
    told = said.count("history_not_written")
    assert said[told:] == ["lines_omitted", "history_written_again", "ready"]
    assert lines[told]["more"] == 100 - told


def test_kinds_are_told_apart(world: World) -> None:
    """A flood of one service hides nothing of another one, nor of another event."""
    for number in range(100):
        world.log("instance_lost", service="a", instance=f"i{number}")
    world.log("instance_lost", service="b", instance="x")
    world.log("job_paused", jobId="y")
    world.log.flush()
    assert [line["event"] for line in world.lines()[FULL:]] == [
        "instance_lost",
        "job_paused",
        "lines_omitted",
    ]
    total = world.lines()[-1]
    assert (total["of"], total["service"], total["more"]) == ("instance_lost", "a", 90)


Lines = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """The lines of this process, whose loggers are as before after the test."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    found: Lines = []
    take_library_logs(lambda event, /, **keys: found.append((event, keys)))
    yield found
    logging.captureWarnings(False)
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def test_warnings_and_errors_are_lines(lines: Lines) -> None:
    """One line each, with the logger and without paths."""
    logger = logging.getLogger("uvicorn.error")
    logger.warning("no answer of %s\nat all", "http://me:word@a.test/path?token=1")
    logger.critical("over")
    assert lines == [
        ("library_warned", {"logger": "uvicorn.error", "message": "no answer of http://a.test"}),
        ("library_failed", {"logger": "uvicorn.error", "message": "over"}),
    ]
    # As it was meant
    record = logging.LogRecord("x", logging.WARNING, "", 1, "%d too %d", ("many",), None)
    found: Lines = []
    LibraryLogs(log=lambda event, /, **keys: found.append((event, keys))).emit(record)
    assert found == [("library_warned", {"logger": "x", "message": "%d too %d"})]


def test_what_libraries_chat_is_not_taken(lines: Lines) -> None:
    """Clients of HTTP write addresses at INFO, and headers at DEBUG."""
    logger = logging.getLogger("httpx")
    logger.info("HTTP Request: GET http://a.test/path")
    logger.debug("headers")
    assert lines == []


def test_an_error_has_its_place(lines: Lines) -> None:
    """The innermost function first, on one line."""

    def fail() -> None:
        raise RuntimeError("first\nsecond")

    try:
        fail()
    except RuntimeError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    [(event, keys)] = lines
    assert event == "library_failed"
    assert keys["error"] == "RuntimeError: first"
    first, second = keys["where"].split(" < ")
    assert first.startswith("test_logs.py:")
    assert first.endswith(" fail")
    assert second.endswith(" test_an_error_has_its_place")


def test_a_warning_of_python_is_a_line(lines: Lines) -> None:
    """Also where tests have warnings as errors: here they are as in a service."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn_explicit("old", DeprecationWarning, "module.py", 7)
    [(event, keys)] = lines
    assert (event, keys["logger"]) == ("library_warned", "py.warnings")
    assert "DeprecationWarning: old" in keys["message"]


@each_row(
    ("url", "host"),
    [
        ("http://a.test/b?c#d", "a.test"),
        ("https://me:word@a.test:80", "a.test:80"),
        ("https://me:w@rd@a.test:80/x@y", "a.test:80"),
        ("http://[::1]:80/b", "[::1]:80"),
        ("service://billing/pay", "billing"),
        ("http:///b", None),
        ("/b", None),
        ("", None),
    ],
)
def test_the_host_of_an_address(url: str, host: str | None) -> None:
    """And its port, never who logs in."""
    assert host_of(url) == host


def test_what_a_target_said_with_its_status_is_told_and_not_logged() -> None:
    """Alerts and events lead with it (SPEC section 5); the log has no part of a body."""
    failure = AttemptEnded(
        execute_number=1,
        request_counts=1,
        at=0,
        error="500",
        failure_type=FailureType.HTTP,
        message="warehouse of ada@a.test is on fire",
    )
    assert told_message(failure) == "warehouse of ada@a.test is on fire"
    assert safe_message(failure) == "the target answered 500"
