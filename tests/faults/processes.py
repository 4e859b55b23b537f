"""The test's end of the services that run, die and start again in processes of their own."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.faults.victim import Order
from tests.forked import fork
from tests.forking import Command

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
LOOK = 0.1


async def until(condition: Callable[[], Awaitable[Any]], what: str = "", *, look: float = LOOK) -> Any:
    """The first answer of `condition` that is true; it is asked each `look` seconds."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := await condition()):  # noqa: ASYNC110 - it is about another process
                await asyncio.sleep(look)
            return found
    except TimeoutError:
        raise AssertionError(f"in {PATIENCE} s it never came to this: {what}") from None


def is_running(pid: int) -> bool:
    """Whether it has not ended; that nobody has asked for its exit code says nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Crashed(Exception):
    """The service died while something was asked of it or awaited."""


class Caller:
    """Asks a service and awaits what becomes of it."""

    @property
    def is_dead(self) -> bool:
        """Whether there is nobody to ask any more."""
        raise NotImplementedError

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request. Raises Crashed where the service is dead, or dies over it."""
        raise NotImplementedError

    async def read(self, path: str, **query: Any) -> Any:
        """`data` of an answer. Raises Crashed."""
        answer = await self.ask("GET", path, params=query)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()["data"]

    async def until(self, condition: Callable[[], Awaitable[Any]], what: str) -> Any:
        """The first answer of `condition` that is true. Raises Crashed when the service dies before."""

        async def look() -> Any:
            found = await condition()
            if not found and self.is_dead:
                raise Crashed
            return found

        return await until(look, what)


class Run(Caller):
    """One life of a service; `told` is the pipe of what happens there."""

    def __init__(self, order: Order, told: int) -> None:
        self.order = order
        self.points: list[str] = []
        self.killed_at: str | None = None
        self.message = ""
        self.code: int | None = None
        self.pid = 0
        self.url: str | None = None
        self._changed = asyncio.Event()
        self._client: httpx.AsyncClient | None = None
        listening = (told, asyncio.get_running_loop())
        threading.Thread(target=self._listen, args=listening, daemon=True).start()

    def _listen(self, told: int, loop: asyncio.AbstractEventLoop) -> None:
        """Until its process id and exit code have come: its worker processes have the pipe too."""
        numbers = 0
        with os.fdopen(told, encoding="utf-8") as lines:
            while numbers < 2 and (line := lines.readline()):
                said = json.loads(line)
                numbers += isinstance(said, int)
                with suppress(RuntimeError):  # its test is over, and so is the loop
                    loop.call_soon_threadsafe(self._hear, said)

    def _hear(self, told: dict[str, Any] | int) -> None:
        if isinstance(told, int):
            self.pid, self.code = (self.pid, told) if self.pid else (told, None)
        else:
            self._take(told)
        self._changed.set()

    def _take(self, told: dict[str, Any]) -> None:
        match told["what"]:
            case "listening":
                self.url = told["url"]
                key = self.order.settings.get("server.key")
                headers = {} if key is None else {"Authorization": f"Bearer {key}"}
                self._client = httpx.AsyncClient(
                    base_url=told["url"], timeout=PATIENCE, trust_env=False, verify=False, headers=headers
                )
            case "point":
                self.points.append(told["name"])
            case "killing":
                self.killed_at = told["name"]
            case "refused" | "broke":
                self.message = told["message"]

    async def is_up(self) -> bool:
        """Whether it came to listen; False: it died before."""
        await self._until(lambda: self.url is not None or self.code is not None, "listens")
        return self.code is None

    async def pass_points(self, count: int) -> None:
        """Returns when it has told of so many points more, and may have passed a few others."""
        last = len(self.points) + count
        await self._until(lambda: len(self.points) >= last or self.code is not None, f"passes {count} points")

    async def end(self) -> int:
        """The exit code, when there is one."""
        await self._until(lambda: self.code is not None, "ends")
        if self._client is not None:
            await self._client.aclose()
        assert self.code is not None
        return self.code

    async def kill(self) -> None:
        """kill -9, unless it is dead already."""
        await self._signal(signal.SIGKILL)

    def signal_stop(self) -> None:
        """SIGTERM, without waiting for what becomes of it."""
        os.kill(self.pid, signal.SIGTERM)

    async def terminate(self) -> int:
        """SIGTERM; the exit code."""
        return await self._signal(signal.SIGTERM)

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request. Raises Crashed where the service is dead, or dies over it."""
        if self._client is None or self.code is not None:
            raise Crashed
        try:
            return await self._client.request(method, path, **options)
        except httpx.TransportError:
            if method == "GET":  # a service that is short of connections closes those that are idle
                with suppress(httpx.TransportError):
                    return await self._client.request(method, path, **options)
            await self._until(lambda: self.code is not None, f"dies, as its silence on {path} says")
            raise Crashed from None

    @property
    def is_dead(self) -> bool:
        return self.code is not None

    async def _signal(self, number: signal.Signals) -> int:
        if self.code is None and self.pid:
            os.kill(self.pid, number)
        return await self.end()

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


def start_run(folder: Path, *, environ: Mapping[str, str] | None = None, **members: Any) -> Run:
    """Starts a service over `folder`, in a running loop; `members` are those of `Order`."""
    order = Order(folder=str(folder), log=f"{folder}.log", **members)
    told, theirs = os.pipe()
    try:
        fork(Command([], str(ROOT), {**os.environ, **(environ or {})}, order), theirs, 2, theirs)
    finally:
        os.close(theirs)
    return Run(order, told)
