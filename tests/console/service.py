"""The whole service on a socket of loopback, in a thread of its own and in real time, with its target."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
from starlette.types import ASGIApp

from scheduler_service.app.listener import listen
from scheduler_service.app.local_service import open_service
from scheduler_service.http_server.server import Server
from scheduler_service.settings import LoadedSettings, Settings
from tests.wire.target import Target

START_SECONDS = 60
PATIENCE_SECONDS = 60


class ConsoleService:
    """A service in memory; `url` is its own address, `outer_url` that of `in_front` of it, if there is one.

    `in_front` makes another application of the service's url, as that of a proxy; with `is_public` its
    address is `server.external_url`. `settings` are groups, as in `server={"key": "…"}`; `port` 0 is any that
    is free. The target is a service `shop` of the settings.
    """

    def __init__(
        self,
        *,
        in_front: Callable[[str], ASGIApp] | None = None,
        is_public: bool = False,
        port: int = 0,
        **settings: Any,
    ) -> None:
        self._settings = settings
        self._in_front = in_front
        self._is_public = is_public
        self._port = port
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="console-service")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._fault: BaseException | None = None
        self.url = ""
        self.outer_url = ""
        self.target: Target

    def __enter__(self) -> "ConsoleService":
        self._thread.start()
        assert self._ready.wait(START_SECONDS), "the service did not start"
        if self._fault is not None:
            raise self._fault
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(START_SECONDS)

    def caller(self) -> httpx.Client:
        """A program that uses the API, with the key where there is one."""
        key = self._settings.get("server", {}).get("key")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=PATIENCE_SECONDS)

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Target(lambda: round(time.time() * 1_000)) as self.target:
                await self._run()
        except BaseException as fault:
            self._fault = fault
            self._ready.set()
            raise

    async def _run(self) -> None:
        assert self._end is not None
        listener = listen("127.0.0.1", self._port)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        given = {"store": {"data": ":memory:"}, "services": {"static": {"shop": [self.target.url]}}}
        outer = listen("127.0.0.1", 0)
        self.outer_url = f"http://127.0.0.1:{outer.getsockname()[1]}"
        if self._is_public:
            self._settings["server"] = self._settings["server"] | {"external_url": self.outer_url}
        loaded = LoadedSettings(Settings.model_validate(given | self._settings), {})
        service = await open_service(loaded, served=self.url, log=_drop)
        await service.start()
        servers = [(server := Server(service.api, log=_drop), _begin(server, listener))]
        if self._in_front is None:
            outer.close()
        else:
            servers.append((front := Server(self._in_front(self.url), log=_drop), _begin(front, outer)))
        self._ready.set()
        await self._end.wait()
        await service.stop(0)
        for one, serving in reversed(servers):
            await one.end(serving, seconds=1)


def _begin(server: Server, listener: Any) -> "asyncio.Task[None]":
    return asyncio.create_task(server.serve([listener]))


def _drop(event: str, /, **keys: object) -> None:
    """A log that nobody reads."""
