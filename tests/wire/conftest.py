"""What the tests over the wire share."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.wire.service import World, running


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A service that runs in memory, with its target."""
    async with running() as world:
        yield world


@pytest.fixture
def client(world: World) -> httpx.AsyncClient:
    """A caller on this machine."""
    return world.client
