"""A line for each request, with the route and never with what stands in its path or query."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import AccessLog
from tests.wire.service import SERVED, World, running

SECRET = "s3cret"
KEY = "0123456789abcdef"


@asynccontextmanager
async def watched(
    world: World, lines: list[dict[str, Any]], **headers: str
) -> AsyncIterator[httpx.AsyncClient]:
    """A caller of the service, whose requests are lines; the clock of the lines ticks once in 5 ms."""
    ticks = iter(range(0, 100_000, 5))

    def log(event: str, /, **keys: object) -> None:
        assert event == "request_answered"
        lines.append(dict(keys))

    app = AccessLog(app=world.service.api, log=log, clock=lambda: next(ticks) / 1_000)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 4321))
    async with httpx.AsyncClient(transport=transport, base_url=SERVED, headers=headers) as client:
        yield client


async def test_a_request_is_a_line_with_its_route() -> None:
    """Ids and tokens stand in path and query, so neither is written; the bytes are those of the answer."""
    lines: list[dict[str, Any]] = []
    async with running() as world, watched(world, lines) as client:
        answer = await client.get(f"/jobs/{SECRET}", params={"token": SECRET})
        await client.post(f"/jobs/{SECRET}", content=SECRET, headers={"x-token": SECRET})
        await client.get(f"/{SECRET}/nothing")
        await client.request(SECRET * 10, f"/jobs/{SECRET}")
        await client.get("/health/live")
    first = lines[0]
    assert first == {
        "method": "GET",
        "route": "/jobs/{jobId}",
        "status": answer.status_code,
        "ms": 5.0,
        "bytes": len(answer.content),
        "role": "admin",
    }
    assert [(line["route"], line["role"]) for line in lines[1:]] == [
        ("/jobs/{jobId}", "admin"),
        (None, None),
        ("/jobs/{jobId}", None),
        ("/health/live", None),
    ]
    assert len(lines[3]["method"]) == 20
    assert SECRET not in json.dumps([{**line, "method": ""} for line in lines])


async def test_a_refused_caller_has_no_role() -> None:
    """And is a line all the same."""
    lines: list[dict[str, Any]] = []
    async with running(server={"key": KEY}) as world:
        async with watched(world, lines) as client:
            assert (await client.get("/jobs")).status_code == 401
        async with watched(world, lines, authorization=f"Bearer {KEY}") as client:
            assert (await client.get("/jobs")).status_code == 200
    assert [(line["status"], line["role"]) for line in lines] == [(401, None), (200, "admin")]


async def test_a_request_that_fails_is_a_line_too() -> None:
    """Its status is null: no answer was begun."""
    lines: list[dict[str, Any]] = []

    async def fail(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError

    app = AccessLog(app=fail, log=lambda event, /, **keys: lines.append(dict(keys)))
    with pytest.raises(RuntimeError):
        await app({"type": "http", "method": "GET"}, None, None)  # type: ignore[arg-type]
    assert [line["status"] for line in lines] == [None]


async def test_the_last_requests_that_the_store_failed_are_counted() -> None:
    """The first is told at once; those after it with the end of the service, if not before."""
    async with running() as world:
        faults = world.service.api_parts.store_faults
        for number in range(3):
            faults.count("requests", error=f"full {number}")
        await world.stop()
        world.service.flush_log()
        told = [keys for event, keys in world.log if event == "store_failed"]
    assert told == [{"requests": 1, "error": "full 0"}, {"requests": 2, "error": "full 2"}]
