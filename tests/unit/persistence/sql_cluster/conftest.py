"""The tables of a cluster in both databases."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.persistence.servers import shared_urls
from tests.unit.persistence.sql_cluster.cluster_store import ClusterStore


@pytest.fixture(params=["sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    url = "sqlite://" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    store = await ClusterStore.open(url)
    yield store
    await store.close()


postgres_url = shared_urls
