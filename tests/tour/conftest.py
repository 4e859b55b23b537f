"""What the stops of the tour share: a parent of processes."""

from collections.abc import AsyncIterator

import pytest

from tests.faults.processes import Fleet, open_fleet


@pytest.fixture(scope="session")
async def fleet(anyio_backend: str) -> AsyncIterator[Fleet]:
    """Services in processes of their own; they are gone after the tests."""
    async with open_fleet() as opened:
        yield opened
