"""Commands for many at once, while the service goes away and comes back (SPEC sections 10 and 16)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.http_program import Asked, HttpProgram, Said
from tests.unit.cli.running import Ran, enveloped

CUT, AWAY = "cut", "away"
BEHIND = {"pointer": "", "code": "history_behind", "message": "the history is behind"}


def operation(state: str, done: int, **members: Any) -> dict[str, Any]:
    """An operation as it stands, on four executions."""
    figures = {"total": 4, "done": done, "succeeded": done, "failed": 0, "problems": []}
    moments = {"startedAt": "2026-01-01T00:00:00.000Z", "endedAt": None}
    return {"operationId": "o1", "action": "replay", "state": state, **figures, **moments, **members}


@contextmanager
def saying(*answers: Any) -> Iterator[tuple[str, list[tuple[str, str | None, Any]]]]:
    """The url of a service that gives these answers in turn, the last one for ever; and what it was asked."""
    left, asked = list(answers), []

    def answer(one: Asked) -> Said | None:
        given = left.pop(0) if len(left) > 1 else left[0]
        asked.append((one.method, one.headers.get("Idempotency-Key"), json.loads(one.body or "null")))
        if given is CUT:
            return None
        data = {"operation": given, "count": 4, "first": []} if one.method == "POST" else given
        return enveloped(data, 503 if given is AWAY else 200)

    with HttpProgram(answer) as program:
        yield program.url, asked


REPLAY = ("executions", "bulk", "replay", "--since", "1h")


def test_a_command_goes_on_under_its_key(ran: Ran) -> None:
    """A lost answer, a service that is away, an operation that was interrupted: one key, one end."""
    whole = operation("done", 4, warnings=[BEHIND])
    with saying(CUT, operation("running", 0), CUT, AWAY, operation("interrupted", 2), AWAY, whole) as (
        url,
        asked,
    ):
        code, out, said = ran(*REPLAY, "-o", "json", "--url", url)
    assert (code, json.loads(out)) == (0, whole)
    assert [method for method, _, _ in asked] == ["POST", "POST", "GET", "GET", "GET", "POST", "POST"]
    sent = [(key, body) for method, key, body in asked if method == "POST"]
    assert sent[0][0]
    assert sent == [sent[0]] * 4
    assert "2 of 4" in said
    assert "warning: the history is behind" in said


def test_what_stays_interrupted_is_no_success(ran: Ran) -> None:
    """Exit code 1, and the options with which the same command goes on, moments as they were."""
    with saying(operation("interrupted", 2)) as (url, asked):
        code, _, said = ran(*REPLAY, "--url", url)
        _, key, body = asked[0]
        again = f"--idempotency-key {key} --since {body['select']['filter']['from']}"
        assert code == 1
        assert again in said
        ran(*REPLAY[:3], *again.split(), "--url", url)
    assert asked == [asked[0]] * len(asked)


def test_a_key_that_cannot_be_sent_is_refused(ran: Ran) -> None:
    """Exit code 2, before anything is sent."""
    with saying(operation("done", 4)) as (url, asked):
        code, _, said = ran(*REPLAY, "--idempotency-key", "ключ", "--url", url)
    assert (code, asked) == (2, [])
    assert "printable ASCII" in said
