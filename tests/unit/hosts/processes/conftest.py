"""Three shards in memory, and their queues."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.hosts.processes.memory_shards import MemoryShards
from tests.unit.persistence.queue_bench import Bench


@pytest.fixture
async def store() -> AsyncIterator[MemoryShards]:
    store = await MemoryShards.open()
    yield store
    await store.close()


@pytest.fixture
def bench(store: Any) -> Bench:
    return Bench(store)
