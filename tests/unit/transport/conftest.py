"""A stage per test: servers and senders that end with it, on uvloop; for `--long` on asyncio's loop, too."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.certificate import Certificate, make_certificate
from tests.unit.transport.servers import Stage


@pytest.fixture(params=["uvloop", pytest.param("asyncio", marks=pytest.mark.long)])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


@pytest.fixture
async def stage(anyio_backend: Any) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        yield Stage(stack)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate of its own authority for good.test and 127.0.0.1, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
