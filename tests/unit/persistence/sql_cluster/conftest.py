"""The tables of a cluster in each database."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.persistence.servers import shared_urls
from tests.unit.persistence.sql_cluster.cluster_store import ClusterStore

postgres_url = shared_urls
SERVERS = ("postgres_url", "mariadb_cluster_url")


@pytest.fixture(params=SERVERS)
def cluster_url(request: pytest.FixtureRequest) -> str:
    """An empty database on each server."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["sqlite", *SERVERS])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    url = "sqlite://" if request.param == "sqlite" else request.getfixturevalue(request.param)
    store = await ClusterStore.open(url)
    yield store
    await store.close()
