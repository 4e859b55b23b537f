"""A service in an application, called as the scheduler calls it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from client_sdk import Client
from client_sdk.target import Service
from tests.unit.client_sdk.registry import Registry

OWN = {"Idempotency-Key": "life-7-0", "X-Scheduling-Execute-Number": "7", "X-Scheduling-Request-Counts": "9"}


class Held:
    """A function that says when it begins and when it ends, and goes on when it may."""

    def __init__(self) -> None:
        self.begun, self.go, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self) -> str:
        """Its result is `done`."""
        self.begun.set()
        try:
            await self.go.wait()
        finally:
            self.ended.set()
        return "done"


class Place:
    """A service in front of an application, and somebody who calls it."""

    def __init__(self, service: Service, http: httpx.AsyncClient, registry: Registry) -> None:
        self.service = service
        self.http = http
        self.registry = registry

    async def call(self, job_id: str, body: Any = None, **further: str) -> httpx.Response:
        """One call as the scheduler makes it."""
        named = {name.replace("_", "-"): value for name, value in further.items()}
        return await self.http.post(f"/punctual/jobs/{job_id}", json=body or {}, headers=OWN | named)


@asynccontextmanager
async def place(wrap: Callable[[Service], Any] | None = None, **options: Any) -> AsyncIterator[Place]:
    """A service with a registry in memory; `wrap` puts it into an application."""
    registry = Registry()
    async with Client("http://scheduler.test", transport=registry.transport) as client:
        service = Service("reports", client=client, address="http://127.0.0.1:9", signals=(), **options)
        app = service if wrap is None else wrap(service)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://target.test") as http:
            yield Place(service, http, registry)
            await service.stop()
