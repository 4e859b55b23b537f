"""A service on a socket of loopback, and a reader of its event stream that a test steers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from scheduler_service.app.listener import listen
from scheduler_service.http_server.connections import STALL_SECONDS
from scheduler_service.http_server.server import Server
from tests.wire.service import World

PATIENCE = 60.0
SMALL_BUFFER = 4_096


class Frame(dict[str, Any]):
    """The `data` of an event; `id` and `event` as the stream gave them. An id alone has no `event`."""

    id: str | None = None
    event: str | None = None


class Stream:
    """An open stream, frame by frame."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.comments: list[str] = []
        self.last_id: str | None = None
        self._frames = self._read()

    async def next(self) -> Frame:
        """The next event."""
        async with asyncio.timeout(PATIENCE):
            return await anext(self._frames)

    async def until(self, kind: str) -> list[Frame]:
        """The events up to one of this kind."""
        found = [await self.next()]
        while found[-1].event != kind:
            found.append(await self.next())
        return found

    async def rest(self) -> list[Frame]:
        """What comes up to the end of the stream."""
        async with asyncio.timeout(PATIENCE):
            return [frame async for frame in self._frames]

    async def _read(self) -> AsyncIterator[Frame]:
        fields: dict[str, str] = {}
        async for line in self.answer.aiter_lines():
            if line.startswith(":"):
                self.comments.append(line[1:].strip())
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            else:
                self.last_id = fields.get("id", self.last_id)
                if "data" in fields:
                    frame = Frame(json.loads(fields["data"]))
                    frame.id, frame.event = fields.get("id"), fields.get("event")
                    yield frame
                fields = {}


class Listening:
    """The API of a service on a socket."""

    def __init__(self, *, server: Server, url: str, serving: "asyncio.Task[None]") -> None:
        self.server = server
        self.url = url
        self.serving = serving

    @asynccontextmanager
    async def stream(self, query: str = "", headers: dict[str, str] | None = None) -> AsyncIterator[Stream]:
        """An open stream, once the service has begun it."""
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=None) as client,
            client.stream("GET", f"/events{query}", headers=headers) as answer,
        ):
            if answer.status_code != 200:
                await answer.aread()
            yield Stream(answer)


@asynccontextmanager
async def listening(world: World, *, stall_seconds: float = STALL_SECONDS) -> AsyncIterator[Listening]:
    """The API of `world` on loopback. Who reads nothing is cut off after `stall_seconds` of real time."""
    listener = listen("127.0.0.1", 0)
    server = Server(
        world.service.api,
        log=lambda event, /, **keys: world.log.append((event, keys)),
        stall_seconds=stall_seconds,
    )
    serving = asyncio.create_task(server.serve([listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield Listening(server=server, url=url, serving=serving)
    finally:
        await server.end(serving, seconds=1)
