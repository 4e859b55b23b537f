"""Answers of a service as results, messages and exit codes (SPEC section 16)."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from client_sdk.client.call_retries import Patience
from client_sdk.client.connection import Connection
from client_sdk.errors import Flaw, Problem
from scheduler_service.cli.documents import DefinitionFile, read_document
from scheduler_service.cli.errors import AbsentError, CommandError, Exit
from scheduler_service.cli.service_connection import (
    ApiConnection,
    SentPart,
    closing_connections,
    connect,
    describe,
    read_flaws,
)
from tests.certificate import make_certificate, serving_tls
from tests.http_program import HttpProgram
from tests.rows import each_row
from tests.unit.cli.running import Ran, enveloped

NOBODY = "http://127.0.0.1:1"

URL = "http://scheduler.test"
PROBLEM = {
    "title": "Unprocessable Content",
    "detail": "2 errors",
    "resp_code": 1,
    "errors": [{"pointer": "/sgn", "code": "unknown_field", "message": "unknown field 'sgn'"}],
}


def call(answer: httpx.Response | Exception, **request: Any) -> Any:
    """The outcome of one GET of `/jobs/a`; counts that it is sent once."""
    seen = []

    def handle(sent: httpx.Request) -> httpx.Response:
        seen.append(sent)
        if isinstance(answer, Exception):
            raise answer
        return answer

    transport = httpx.MockTransport(handle)
    connection = ApiConnection(
        Connection(url=URL, key="k", timeout=1, patience=Patience(retries=0), transport=transport)
    )
    try:
        return connection.exchange("GET", "/jobs/a", **request)
    finally:
        connection.close()
        assert len(seen) <= 1


def test_data_and_warnings_are_returned() -> None:
    """The envelope of SPEC section 10."""
    answer = call(httpx.Response(200, json={"data": {"a": 1}, "warnings": [{"code": "x"}]}))
    assert (answer.data, answer.warnings) == ({"a": 1}, [{"code": "x"}])


@each_row(("status", "code"), [(400, 1), (404, 1), (409, 1), (422, 1), (429, 1), (500, 1), (503, 3)])
def test_each_status_has_its_exit_code(status: int, code: int) -> None:
    """Refused is 1, unavailable is 3; each error is shown once (16)."""
    with pytest.raises(CommandError) as caught:
        call(httpx.Response(status, json=PROBLEM))
    assert caught.value.code == code
    assert caught.value.message == "/sgn: unknown field 'sgn'"
    assert isinstance(caught.value, AbsentError) is (status == 404)


@each_row(
    ("pointers", "part", "code"),
    [
        (["/misfire"], False, 2),
        (["/limit", "/cursor"], False, 2),
        (["/drain", "/labels", "/role", "/expiresAt", "/operation"], False, 2),
        (["/misfire", "/sgn"], False, 1),
        (["/jobId"], False, 1),
        (["/timer/timezone"], True, 1),
    ],
)
def test_a_wrong_option_is_a_wrong_command_line(pointers: list[str], part: bool, code: int) -> None:
    """Whoever finds it, the command line or the service; a definition in a file is no option (16)."""
    errors = [{"pointer": one, "code": "choice", "message": "is wrong"} for one in pointers]
    given = SentPart(DefinitionFile("a.json", {}, {})) if part else None
    with pytest.raises(CommandError) as caught:
        call(httpx.Response(422, json=PROBLEM | {"errors": errors}), part=given)
    assert caught.value.code == code


@each_row("answer", [httpx.Response(200, text="<html>"), httpx.Response(502, text="proxy")])
def test_an_answer_of_something_else_is_no_service(answer: httpx.Response) -> None:
    """Exit code 3 names the address (16)."""
    with pytest.raises(CommandError, match=URL) as caught:
        call(answer)
    assert caught.value.code is Exit.UNREACHABLE


def test_an_unreachable_service_is_named_with_the_reason() -> None:
    """Exit code 3 names the address, the first cause and the remedy (16)."""
    error = httpx.ConnectError("All connection attempts failed")
    error.__cause__ = OSError("Connection refused")
    with pytest.raises(
        CommandError, match=r"scheduler\.test \(Connection refused\); start one with"
    ) as caught:
        call(error)
    assert caught.value.code is Exit.UNREACHABLE
    # An answer that was cut may be of what was done
    error = httpx.RemoteProtocolError("peer closed connection without sending complete message body")
    with pytest.raises(CommandError, match=r"peer closed.*may have been done: look before") as caught:
        call(error)
    assert caught.value.code is Exit.UNREACHABLE


def test_a_number_that_json_does_not_have_is_refused() -> None:
    """Exit code 2, before anything is sent (16)."""
    with pytest.raises(CommandError, match="not valid JSON") as caught:
        call(httpx.Response(200), body={"a": float("inf")})
    assert caught.value.code is Exit.USAGE


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "list"),
        ("jobs", "get", "a"),
        ("jobs", "delete", "a"),
        ("jobs", "trigger", "a", "--wait"),
        ("executions", "watch", "a-1"),
        ("timers", "preview", "5m"),
    ],
)
def test_a_service_that_cannot_be_reached_ends_with_3(ran: Ran, arguments: tuple[str, ...]) -> None:
    """Exit code 3; the message names the address and the remedy (16)."""
    code, out, err = ran(*arguments, "--url", NOBODY)
    assert (code, out) == (3, "")
    assert NOBODY in err
    assert "punctual serve" in err


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:0", "http://a b", "nowhere"])
def test_an_address_that_no_connection_can_reach_ends_with_2(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """Exit code 2 before anything is sent, from the option and from the environment (16)."""
    expected = f"punctual: url {url!r} is not the address of a service: write http://HOST:PORT"
    monkeypatch.setenv("PUNCTUAL_URL", url)
    for arguments in ((), ("--url", url)):
        code, out, err = ran("jobs", "list", *arguments)
        assert (code, out) == (2, "")
        assert err.startswith(expected)
        assert err.count("\n") == 1


def test_the_environment_names_the_service(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """PUNCTUAL_URL counts where --url is not given (16)."""
    monkeypatch.setenv("PUNCTUAL_URL", NOBODY)
    assert NOBODY in ran("jobs", "list")[2]
    assert "http://127.0.0.1:2" in ran("jobs", "list", "--url", "http://127.0.0.1:2")[2]


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "data", [{"items": [{"jobId": "a"}], "nextCursor": None}, {"items": [1]}, [], "x", None]
)
def test_an_answer_of_another_program_is_no_stack_trace(ran: Ran, data: Any) -> None:
    """It is named, with the place and the remedy; the key stays unsaid."""
    with HttpProgram(lambda _: enveloped(data)) as program:
        url = program.url
        code, _, said = ran("jobs", "list", "--url", url, "--key", "k-of-the-caller")
    assert (code, said.count(url)) == (3, 1)
    assert "cannot be read" in said
    assert re.search(r"Error at [a-z_]+:\d+: ", said)
    assert "--url" in said
    assert "k-of-the-caller" not in said


RETRY = {"number": 1, "at": None, "waitMs": float("inf"), "afterMs": 1}
RUN = {"jobId": "a", "state": "succeeded", "startedAt": "at noon", "endedAt": "2026-13-99T00:00:00Z"}


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (("services", "get", "a", "-o", "yaml"), nested(600)),
        (("jobs", "retry-plan", "a"), {"items": [RETRY], "error": "500", "reason": None}),
        (("top", "--once"), {"items": [RUN]}),
    ],
)
def test_an_odd_value_of_an_answer_is_no_stack_trace(ran: Ran, arguments: tuple[str, ...], data: Any) -> None:
    """Depths, numbers and moments that no scheduler says."""
    with HttpProgram(lambda _: enveloped(data)) as program:
        url = program.url
        code, _, said = ran(*arguments, "--url", url)
    assert (code, said.count(url)) == (3, 1), said
    assert "cannot be read" in said


def test_a_defect_of_a_command_is_no_fault_of_the_answer() -> None:
    """As long as there is no answer to read, an error of a command stays what it is."""
    with pytest.raises(KeyError, match="own"):
        _stumble_once_connected()


def _stumble_once_connected() -> None:
    with closing_connections():
        connect(NOBODY, None)
        raise KeyError("own")


def test_a_private_authority_is_named(tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an option or a variable; without it the message says what is not trusted, and what to do."""
    certificate = make_certificate(tmp_path)
    with serving_tls(certificate) as url:
        monkeypatch.setenv("PUNCTUAL_URL", url)
        code, _, said = ran("jobs", "list")
        assert code == 3
        assert "cannot be trusted: certificate verify failed" in said
        assert "by punctual --ca FILE, PUNCTUAL_CA or SSL_CERT_FILE" in said
        assert ran("--ca", str(certificate.path), "jobs", "list")[0] == 0
        monkeypatch.setenv("PUNCTUAL_CA", str(tmp_path / "none.pem"))
        code, _, said = ran("jobs", "list")
        assert (code, "none.pem' cannot be read" in said) == (2, True)
        monkeypatch.delenv("PUNCTUAL_CA")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
        assert ran("jobs", "list")[0] == 0
        assert url in ran("doctor", "--url", url)[1]


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
        (
            Flaw("/jobId", "conflict", "change it with POST /jobs/{jobId}/update, or delete it first"),
            "change it with 'punctual jobs apply', or delete it first",
        ),
        (Flaw("/other", "x", "is wrong"), "/other: is wrong"),
    ],
)
def test_an_option_stands_for_a_parameter(flaw: Flaw, text: str) -> None:
    """And a command for a route that would help; an argument is named by its value already."""
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
    # A missing key has its remedy: the options that give one
    assert describe(problem(status=401)) == "in short; give a key with --key or PUNCTUAL_KEY"
    # Warnings are read from answers: what is missing is empty
    assert read_flaws([{"pointer": "/a", "code": "c"}]) == [Flaw("/a", "c", "")]


def test_an_error_of_a_file_has_its_place(tmp_path: Path) -> None:
    """With the pointer in the file, wherever the definition is in the request."""
    file = tmp_path / "jobs.json"
    file.write_text('{"timer": [\n {"jobId": "a", "sgn": 1}]}', encoding="utf-8")
    part = SentPart(read_document(file), "/timers", "/timer")
    told = describe(problem(Flaw("/timers/0/sgn", "unknown_field", "unknown field")), part)
    assert told == f"{file}:2:24: /timer/0/sgn: unknown field [unknown_field]"
    told = describe(problem(Flaw("/timers/0/jobName", "required", "jobName is required")), part)
    assert told == f"{file}:2:2: /timer/0/jobName: jobName is required [required]"
