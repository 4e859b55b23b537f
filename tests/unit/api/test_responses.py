"""Refusals are problem details with a status and a pointer (SPEC section 10, RFC 9457)."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

import httpx
import pytest

from client_sdk.models import Problem
from scheduler_service.api.responses import PIECE_BYTES, LongAnswer, succeed
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from tests.unit.api.world import World, definition, pointers


async def test_an_answer_lists_a_hundred_errors(client: httpx.AsyncClient) -> None:
    """A body with very many errors is not answered by as many: the detail says how many more there are."""
    body = definition() | {f"x{index}": 1 for index in range(1_000)}
    problem = (await client.post("/jobs/j1", json=body)).json()
    assert len(problem["errors"]) == 100
    assert problem["detail"].endswith("; and 999 more")


async def test_unknown_paths_and_methods_are_problems(client: httpx.AsyncClient) -> None:
    """404 and 405 of unknown routes are problems too (SPEC section 10)."""
    for path in ("/nothing", "/jobs/", "/jobs/a/b/c"):
        response = await client.get(path)
        assert (response.status_code, pointers(response)) == (404, [("", "no_route")])
    patched = await client.patch("/jobs/j1")
    assert patched.status_code == 405
    assert patched.headers["allow"] == "DELETE, GET, POST, PUT"
    pointers(patched)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (StoreUnavailable("the disk is full"), "unavailable"),
        (StoreConflict("another writer was first"), "unavailable"),
        (StoreUncertain("no answer"), "unknown"),
    ],
)
async def test_a_store_that_fails_is_503(
    client: httpx.AsyncClient, world: World, fault: StoreError, code: str
) -> None:
    """503: nothing was done, or code `unknown` where that is not known (SPEC section 10)."""
    world.fault = fault
    response = await client.post("/jobs/j1", json=definition())
    assert (response.status_code, pointers(response)) == (503, [("", code)])
    assert response.headers["retry-after"] == "1"
    bulk = await client.post("/jobs", json=[{"jobId": "a", **definition()}])
    assert bulk.json()["data"]["items"][0]["problem"]["errors"][0]["code"] == code
    world.fault = None
    assert (await client.get("/jobs/j1")).status_code == 404


async def test_an_internal_error_shows_nothing(world: World) -> None:
    """Never a stack trace (SPEC section 10)."""

    async def break_down() -> tuple[str, ...]:
        raise RuntimeError("the secret inside")

    broken = World(ready=break_down)
    transport = httpx.ASGITransport(broken.api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get("/health/ready")
        assert (response.status_code, pointers(response)) == (500, [("", "internal")])
        assert "secret" not in response.text


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
