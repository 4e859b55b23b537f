"""A stage per test: servers and senders that end with it, on both event loops."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.unit.transport.servers import Stage


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


@pytest.fixture
async def stage(anyio_backend: Any) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        yield Stage(stack)
