"""A service in the test's own process, with a clock and fault points that the test controls."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from scheduler_service.app.local_service import LocalService, open_service
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.settings import load_settings
from tests.faults.processes import Caller

BASE = "http://127.0.0.1:1"


class Inside(Caller):
    """Asks a service without a socket between."""

    def __init__(self, service: LocalService, log: list[str]) -> None:
        self.service = service
        self.log = log
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app=service.api), base_url=BASE)

    @property
    def is_dead(self) -> bool:
        return False

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self._client.request(method, path, **options)

    async def close(self) -> None:
        await self._client.aclose()
        await self.service.stop(0)


class Wall:
    """The machine's clock, which the test sets forward and back by `shift` seconds."""

    def __init__(self) -> None:
        self.shift = 0.0

    def __call__(self) -> float:
        return time.time() + self.shift


@asynccontextmanager
async def open_inside(
    folder: Path | None,
    *,
    faults: FaultPoints | None = None,
    wall: Callable[[], float] = time.time,
    **settings: Any,
) -> AsyncIterator[Inside]:
    """A running service; `settings` by their names with `__` for the dot."""
    given = {name.replace("__", "."): value for name, value in settings.items()}
    loaded = load_settings({"store.data": str(folder) if folder else ":memory:", **given}, {})
    log: list[str] = []
    service = await open_service(
        loaded,
        served=BASE,
        log=lambda event, /, **keys: log.append(event),
        faults=faults,
        keep_time=lambda *, skew, on_step: SystemClock(skew=skew, on_step=on_step, wall=wall),
    )
    inside = Inside(service, log)
    try:
        await service.start()
        yield inside
    finally:
        await inside.close()
