"""A running service, and a client of it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from client_sdk import Client
from tests.wire.service import SERVED, World, running


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A service that runs in memory, with its target."""
    async with running() as world:
        yield world


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client]:
    """A client of it."""
    async with Client(SERVED, transport=httpx.ASGITransport(world.service.api)) as client:
        yield client
