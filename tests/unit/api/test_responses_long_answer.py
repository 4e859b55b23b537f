"""A long member is sent in pieces, and means what it means in a short answer."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from client_sdk.models import Problem
from scheduler_service.api.responses import PIECE_BYTES, LongAnswer, succeed

WARNINGS = (Problem("/timers/0", "odd", "it is odd"),)


async def never() -> Any:
    """Nothing is received."""
    raise AssertionError


async def test_it_says_what_one_piece_would_say() -> None:
    """Its length is known before, and no piece is long."""
    timers = [{"jobId": f"job-{number}"} for number in range(20_000)]
    text, data = json.dumps(timers).encode(), {"name": "billing"}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    answer = LongAnswer(
        data, "timers", text, {"location": "/x"}, status=HTTPStatus.CREATED, warnings=WARNINGS
    )
    await answer({"type": "http"}, never, send)
    body = b"".join(message["body"] for message in sent[1:])
    whole = succeed(
        data | {"timers": timers}, {"location": "/x"}, status=HTTPStatus.CREATED, warnings=WARNINGS
    )
    assert json.loads(body) == json.loads(bytes(whole.body))
    assert sent[0]["status"] == 201
    assert dict(sent[0]["headers"]) == {
        b"location": b"/x",
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
    }
    assert max(len(message["body"]) for message in sent[1:]) <= PIECE_BYTES
    assert [message["more_body"] for message in sent[1:]] == [True] * (len(sent) - 2) + [False]


async def test_the_loop_comes_between_two_pieces() -> None:
    """Also where the caller reads as fast as it is written."""
    came = 0

    async def count() -> None:
        nonlocal came
        while True:
            came += 1
            await asyncio.sleep(0)

    async def send(message: Any) -> None:
        """Never waits."""

    other = asyncio.ensure_future(count())
    await LongAnswer({"a": 1}, "b", b" " * PIECE_BYTES * 20 + b"1")({"type": "http"}, never, send)
    other.cancel()
    assert came >= 20
