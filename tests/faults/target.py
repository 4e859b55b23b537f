"""A target on loopback that logs every byte it gets, and answers as the swept jobs need it."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

Answer = tuple[int, dict[str, Any]]
NEW_ON_EVERY_SEND = ("traceparent", "x-scheduling-deadline")


class Seen(msgspec.Struct, frozen=True):
    """One request as it came. `text` is all of it but what is new on every send."""

    path: str
    headers: dict[str, str]
    body: bytes
    text: bytes
    life: int
    at: float

    @property
    def execution(self) -> int:
        return int(self.headers["x-scheduling-execute-number"])

    @property
    def attempt(self) -> int:
        return int(self.headers["x-scheduling-request-counts"])

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]

    @property
    def identity(self) -> tuple[str, str, int]:
        """What is the same when a request is sent again after a crash."""
        return self.path, self.key, self.attempt


class Target:
    """Logs and answers. `life` is counted up by the test with each start of the service."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.life = 0
        self.url = ""
        self.gates: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._arrival = asyncio.Event()

    def hold(self, path: str) -> asyncio.Event:
        """From now on `path` is answered once the event is set."""
        return self.gates.setdefault(path, asyncio.Event())

    def to(self, *paths: str) -> list[Seen]:
        """The requests to these paths, in order of arrival."""
        return [one for one in self.seen if one.path in paths]

    async def until(self, count: int) -> None:
        """Returns when `count` requests have arrived."""
        while len(self.seen) < count:
            self._arrival.clear()
            await self._arrival.wait()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection, until the peer goes or dies."""
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while True:
                seen = await self._read(reader)
                status, body = self._answer(seen)
                self.seen.append(seen)
                self._arrival.set()
                if seen.path in self.gates:
                    await self.gates[seen.path].wait()
                payload = json.dumps(body).encode()
                head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\n"
                writer.write(f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            # Else its transport is still open when the test's loop goes.
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def stop(self) -> None:
        """Ends the connections that are open, one that was only just taken too: its task must have begun."""
        await asyncio.sleep(0)
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader) -> Seen:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        kept = [first, *(line for line in lines if not line.lower().startswith(NEW_ON_EVERY_SEND))]
        path = first.split(" ")[1].partition("?")[0]
        return Seen(
            path, headers, body, "\r\n".join(kept).encode("latin-1") + body, self.life, time.monotonic()
        )

    def _answer(self, seen: Seen) -> Answer:
        match seen.path:
            case "/two":
                return self._fail_first_attempt(seen)
            case "/three":
                return 202, {"accepted": True}
            case "/check":
                return self._check(seen)
            case "/told":
                return self._hear(seen)
            case _:
                return 200, {"value": "tea"}

    def _fail_first_attempt(self, seen: Seen) -> Answer:
        """Whoever asks again in the same attempt gets the same answer: a crash changes no outcome."""
        first = min(
            (one.attempt for one in self.seen if one.execution == seen.execution), default=seen.attempt
        )
        return (500, {"error": "try again"}) if seen.attempt == first else (200, {"ok": True})

    def _check(self, seen: Seen) -> Answer:
        """The first check of an attempt says: half of it; the second: done."""
        keys = list(dict.fromkeys(one.key for one in self.to("/check") if one.attempt == seen.attempt))
        is_first = not keys or keys[0] == seen.key
        progress = "1/2" if is_first else "2/2"
        return 200, {"status": "" if is_first else "succeed", "progress": progress}

    def _hear(self, seen: Seen) -> Answer:
        """Each notification of progress has to be delivered twice."""
        is_new = all(one.key != seen.key for one in self.to("/told"))
        running = json.loads(seen.body)["response"]["status"] == ""
        return (500, {}) if is_new and running else (200, {})


@asynccontextmanager
async def open_target() -> AsyncIterator[Target]:
    """A target that listens; it is gone afterwards."""
    target = Target()
    server = await asyncio.start_server(target.take, "127.0.0.1", 0)
    target.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield target
    finally:
        server.close()
        await target.stop()
