"""A service whose jobs a whole scheduler calls."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from client_sdk import Client
from client_sdk.target import Service
from tests.unit.client_sdk.lines import serving
from tests.wire.service import SERVED, World, running


@asynccontextmanager
async def scheduled(**jobs: tuple[Callable[..., Any], dict[str, Any]]) -> AsyncIterator[tuple[World, Client]]:
    """The whole scheduler, and a service of it on loopback that has these jobs: function, options."""
    box: dict[str, Any] = {}

    async def forward(scope: Any, receive: Any, send: Any) -> None:
        await box["service"](scope, receive, send)

    async with (
        serving(forward) as url,
        running(services={"static": {"files": (url,)}}) as world,
        Client(SERVED, transport=httpx.ASGITransport(world.service.api)) as client,
    ):
        box["service"] = service = Service(
            "files", client=client, address=url, signals=(), clock=world.seconds
        )
        for name, (function, options) in jobs.items():
            service.job(**({"job_id": name, "asynchronous": True} | options))(function)
        results = await client.jobs.create_many(service.definitions())
        assert [result.status for result in results] == ["created"] * len(jobs), results
        yield world, client
