"""The API's server wakes once a second: it ends at once all the same, and its answers have the date."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler_service.app import uvicorn_server
from scheduler_service.app.listener import listen
from scheduler_service.app.uvicorn_server import Server, make_server, until_next_date
from tests.rows import each_row

PATIENCE = 10.0


async def answer_nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application whose answers are empty."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def serving(listener: socket.socket) -> AsyncIterator[tuple[Server, "asyncio.Task[None]"]]:
    """A server, gone afterwards."""
    server = make_server(answer_nothing, log=lambda event, /, **keys: None)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(PATIENCE):
            yield server, task
    finally:
        server.ask_to_end()
        await task


async def read_date(port: int) -> bytes:
    """The header Date of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    head = await reader.read()
    writer.close()
    return next(line for line in head.lower().split(b"\r\n") if line.startswith(b"date:"))


async def test_it_ends_as_soon_as_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it would have slept."""
    monkeypatch.setattr(uvicorn_server, "DATE_SECONDS", 3_600.0)
    listener = listen("127.0.0.1", 0)
    async with serving(listener) as (server, task):
        await read_date(listener.getsockname()[1])
        server.ask_to_end()
        await task


@each_row(("now", "left"), [(1_000.0, 1.0), (1_000.25, 0.75), (1_000.5, 0.5), (1_000.9375, 0.0625)])
def test_the_date_is_looked_at_as_the_second_changes(now: float, left: float) -> None:
    """It is the second's own then, and there is never no wait at all."""
    assert until_next_date(now) == left


async def test_the_date_of_answers_goes_on() -> None:
    """With the seconds of the system's clock."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    async with serving(listener):
        first = await read_date(port)
        while await read_date(port) == first:
            """A second, at most two, of requests."""
