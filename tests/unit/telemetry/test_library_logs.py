"""What libraries log is a line like any other, without addresses; what they chat is none."""

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_service.telemetry.library_logs import LibraryLogs, take_library_logs

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
    assert first.startswith("test_library_logs.py:")
    assert first.endswith(" fail")
    assert second.endswith(" test_an_error_has_its_place")


def test_a_line_whose_arguments_do_not_fit_is_written(lines: Lines) -> None:
    """As it was meant."""
    record = logging.LogRecord("x", logging.WARNING, "", 1, "%d too %d", ("many",), None)
    found: Lines = []
    LibraryLogs(log=lambda event, /, **keys: found.append((event, keys))).emit(record)
    assert found == [("library_warned", {"logger": "x", "message": "%d too %d"})]


def test_a_warning_of_python_is_a_line(lines: Lines) -> None:
    """Also where tests have warnings as errors: here they are as in a service."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn_explicit("old", DeprecationWarning, "module.py", 7)
    [(event, keys)] = lines
    assert (event, keys["logger"]) == ("library_warned", "py.warnings")
    assert "DeprecationWarning: old" in keys["message"]
