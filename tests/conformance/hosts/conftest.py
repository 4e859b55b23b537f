"""The hosts that pass the suite: a new one adds one line to `houses.HOUSES`."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.hosts.houses import HOUSES, ON_SERVERS, AnyHouse, DaprHouse
from tests.unit.persistence.servers import shared_urls

postgres_cluster_url = shared_urls


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """uvloop, as in service: tests with a clock that jumps make millions of its rounds."""
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture(params=[*HOUSES, *(pytest.param(name, marks=pytest.mark.long) for name in ON_SERVERS)])
async def house(request: pytest.FixtureRequest) -> AsyncIterator[AnyHouse]:
    """A started host, closed after the test."""
    if request.param in ON_SERVERS:
        opened: AnyHouse = DaprHouse(shared=request.getfixturevalue(ON_SERVERS[request.param]))
    else:
        opened = HOUSES[request.param]()
    await opened.start()
    yield opened
    await opened.close()


@pytest.fixture(params=ON_SERVERS)
async def served(request: pytest.FixtureRequest) -> AsyncIterator[DaprHouse]:
    """A cluster of one node over the stand-in, with its tables on each server."""
    opened = await DaprHouse(shared=request.getfixturevalue(ON_SERVERS[request.param])).start()
    yield opened
    await opened.close()


@pytest.fixture
async def cluster() -> AsyncIterator[DaprHouse]:
    """A cluster of one node over the stand-in."""
    opened = await DaprHouse().start()
    yield opened
    await opened.close()
