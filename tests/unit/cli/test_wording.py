"""Errors of a service in the words of the command line (SPEC section 16)."""

from pathlib import Path

from client_sdk.errors import Flaw, Problem
from scheduler_service.cli.documents import read_document
from scheduler_service.cli.wording import SentPart, describe, read_flaws
from tests.rows import each_row


def problem(*flaws: Flaw, status: int = 422) -> Problem:
    """A refusal for these reasons."""
    return Problem(status, "in short", errors=flaws)


@each_row(
    ("flaw", "text"),
    [
        (Flaw("/limit", "invalid", "limit '0' must be from 1 to 500"), "--limit '0' must be from 1 to 500"),
        (Flaw("/error", "required", "the parameter 'error' is required"), "--error is required"),
        (Flaw("/timer/timezone", "zone", "there is no zone X"), "--timezone: there is no zone X"),
        (Flaw("/Last-Event-ID", "invalid", "Last-Event-ID 'x' is no id"), "--after 'x' is no id"),
        (
            Flaw("/lastOutcome", "invalid", "lastOutcome 'x' must be one of a"),
            "--last-outcome 'x' must be one of a",
        ),
        (Flaw("/jobId", "absent", "there is no job 'a'"), "there is no job 'a'"),
        (Flaw("", "conflict", "it has ended"), "it has ended"),
        (Flaw("/other", "x", "is wrong"), "/other: is wrong"),
    ],
)
def test_an_option_stands_for_a_parameter(flaw: Flaw, text: str) -> None:
    """And an argument is named by its value already."""
    assert describe(problem(flaw)) == text


def test_a_command_may_call_a_parameter_otherwise() -> None:
    """The days of the statistics have options of their own."""
    wrong = problem(
        Flaw("/from", "invalid", "from 'x' is no day"), Flaw("/limit", "invalid", "limit is wrong")
    )
    assert describe(wrong).startswith("2 errors:\n  --since 'x' is no day")
    assert describe(wrong, None, {"/from": "--from"}) == (
        "2 errors:\n  --from 'x' is no day\n  --limit is wrong"
    )


def test_each_error_is_told_once() -> None:
    """The summary of the service stands for errors that are not listed alone."""
    assert describe(problem()) == "in short"
    told = describe(problem(Flaw("/state", "a", "is wrong"), Flaw("/text", "b", "is empty")))
    assert told == "2 errors:\n  --state: is wrong\n  --text: is empty"


def test_a_missing_key_has_its_remedy() -> None:
    """The options that give one."""
    assert describe(problem(status=401)) == "in short; give a key with --key or PUNCTUAL_KEY"


def test_an_error_of_a_file_has_its_place(tmp_path: Path) -> None:
    """With the pointer in the file, wherever the definition is in the request."""
    file = tmp_path / "jobs.json"
    file.write_text('{"timer": [\n {"jobId": "a", "sgn": 1}]}', encoding="utf-8")
    part = SentPart(read_document(file), "/timers", "/timer")
    told = describe(problem(Flaw("/timers/0/sgn", "unknown_field", "unknown field")), part)
    assert told == f"{file}:2:24: /timer/0/sgn: unknown field [unknown_field]"
    told = describe(problem(Flaw("/timers/0/jobName", "required", "jobName is required")), part)
    assert told == f"{file}:2:2: /timer/0/jobName: jobName is required [required]"


def test_a_remedy_is_a_command() -> None:
    """Where the service names the route that would help."""
    flaw = Flaw(
        "/jobId", "conflict", "it exists; change it with POST /jobs/{jobId}/update, or delete it first"
    )
    assert describe(problem(flaw)) == "it exists; change it with 'punctual jobs apply', or delete it first"


def test_warnings_are_read_from_answers() -> None:
    """What is missing is empty."""
    assert read_flaws([{"pointer": "/a", "code": "c"}]) == [Flaw("/a", "c", "")]
