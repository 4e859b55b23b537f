"""What the attacks share: a parent of processes, and servers of hostile targets."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from tests.certificate import Certificate, make_certificate
from tests.faults.processes import Fleet, open_fleet
from tests.unit.transport.servers import Stage


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """Services in processes of their own; they are gone after the tests."""
    with open_fleet() as opened:
        yield opened


@pytest.fixture
async def stage(anyio_backend: str) -> AsyncIterator[Stage]:
    """Servers that are gone after the test."""
    async with AsyncExitStack() as stack:
        yield Stage(stack)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate of its own authority for 127.0.0.1, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
