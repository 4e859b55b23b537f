"""What of a text may stand in the log."""

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.telemetry.log_text import LONGEST, host_of, safe_message, shorten, told_message
from tests.rows import each_row


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


def test_a_text_is_one_line_without_paths() -> None:
    """And no longer than a line should be, however long it was."""
    assert (
        shorten("no answer of http://u:p@a.test/b?c=d, twice\nbecause") == "no answer of http://a.test twice"
    )
    assert len(shorten("é" * 1_000_000)) == LONGEST
    assert shorten("") == ""


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
