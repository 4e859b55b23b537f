"""A target on loopback: real sockets, answers by script, and a list of everything that came."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

HELD = object()
"""An answer that never comes."""


@dataclass(frozen=True)
class Seen:
    """One request as it came over the wire; `at` is the scheduler's wall clock then, in ms."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: int

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Reply:
    """An answer: `body` is sent as JSON, unless it is bytes."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


Answer = Reply | int | object
Compute = Callable[[Seen], Reply]


class Target:
    """A server whose paths answer in turn what they were told; 200 and `{}` where they were told nothing."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._scripts: dict[str, deque[Answer]] = {}
        self._always: dict[str, Answer | Compute] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._listener: asyncio.Server | None = None
        self._released = asyncio.Event()
        self.seen: list[Seen] = []
        self.held = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self, path: str, *answers: Answer) -> None:
        """What `path` and the paths below it answer next, each once: a status, a Reply, or HELD."""
        self._scripts.setdefault(path, deque()).extend(answers)

    def always(self, path: str, answer: "Answer | Compute") -> None:
        """What they answer after that."""
        self._always[path] = answer

    def at(self, path: str) -> list[Seen]:
        """The requests for `path` and the paths below it, in order."""
        return [one for one in self.seen if one.path == path or one.path.startswith(path + "/")]

    def release(self) -> None:
        """Who is held has 200 and `{}`, and nobody is held any more."""
        self._released.set()

    async def __aenter__(self) -> "Target":
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                seen = await self._read(reader)
                self.seen.append(seen)
                answer = self._answer(seen)
                if answer is HELD:
                    if not await self._hold(reader):
                        return
                    answer = Reply()
                writer.write(_write(answer))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _hold(self, reader: asyncio.StreamReader) -> bool:
        """Until the caller hangs up (False), or `release` lets it have its answer (True)."""
        self.held += 1
        gone, freed = asyncio.ensure_future(reader.read(1)), asyncio.ensure_future(self._released.wait())
        try:
            await asyncio.wait({gone, freed}, return_when=asyncio.FIRST_COMPLETED)
            return not gone.done()
        finally:
            gone.cancel()
            freed.cancel()
            await asyncio.gather(gone, freed, return_exceptions=True)
            self.held -= 1

    async def _read(self, reader: asyncio.StreamReader) -> Seen:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, location, _ = line.split(" ")
        parts = urlsplit(location)
        return Seen(method, parts.path, dict(parse_qsl(parts.query)), headers, body, self._now())

    def _answer(self, seen: Seen) -> Answer:
        for place in _upwards(seen.path):
            if script := self._scripts.get(place):
                return script.popleft()
            if place in self._always:
                known = self._always[place]
                return known(seen) if callable(known) else known
        return Reply()


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def _write(answer: Answer) -> bytes:
    reply = Reply(answer) if isinstance(answer, int) else answer
    assert isinstance(reply, Reply)
    body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))} | reply.headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {reply.status} As told\r\n{lines}\r\n".encode() + body
