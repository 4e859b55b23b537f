"""What the tests of the API share."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.unit.api.world import World


@pytest.fixture
def world() -> World:
    """An empty scheduler without a key."""
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A caller on this machine."""
    async with world.client() as client:
        yield client
