"""What the tests of registry and router share."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler_service.services.instances import Instances
from scheduler_service.services.registry import Registry
from tests.unit.services.routing_rig import Scene
from tests.unit.services.shared_table import ViewedCluster
from tests.unit.services.tables import MemoryTable, StandingClock


@pytest.fixture
def clock() -> StandingClock:
    """A clock that stands."""
    return StandingClock()


@pytest.fixture
def table() -> MemoryTable:
    """An empty table."""
    return MemoryTable()


@pytest.fixture
def registry(table: MemoryTable, clock: StandingClock) -> Registry:
    """An empty registry over `table`."""
    return Registry(table=table, instances=Instances(), clock=clock)


@pytest.fixture
async def cluster() -> AsyncIterator[ViewedCluster]:
    """Two nodes, `one` and `two`."""
    made = ViewedCluster()
    await made.start("one")
    await made.start("two")
    yield made
    await made.close()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A router over instances that the test names."""
    made = Scene()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)
