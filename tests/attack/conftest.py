"""What the attacks share: servers of hostile targets."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.certificate import Certificate, make_certificate
from tests.unit.transport.servers import Stage


@pytest.fixture
async def stage(anyio_backend: str) -> AsyncIterator[Stage]:
    """Servers that are gone after the test."""
    async with AsyncExitStack() as stack:
        yield Stage(stack)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate of its own authority for 127.0.0.1, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
