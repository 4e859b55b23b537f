"""What the tests of the host share."""

import pytest

from tests.unit.hosts.house import House
from tests.unit.hosts.turn_rig import Bench


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """uvloop, as in service: tests with a clock that jumps make millions of its rounds."""
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture
async def house() -> House:
    """A host that has started, as it comes."""
    return await House().start()


@pytest.fixture
async def bench() -> Bench:
    return Bench()
