"""The hosts that pass the suite: a new one adds one line to `houses.HOUSES`."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.hosts.houses import HOUSES, AnyHouse, DaprHouse


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """uvloop, as in service: tests with a clock that jumps make millions of its rounds."""
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture(params=HOUSES)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[AnyHouse]:
    """A started host, closed after the test."""
    opened = await HOUSES[request.param]().start()
    yield opened
    await opened.close()


@pytest.fixture
async def cluster() -> AsyncIterator[DaprHouse]:
    """A cluster of one node over the stand-in."""
    opened = await DaprHouse().start()
    yield opened
    await opened.close()
