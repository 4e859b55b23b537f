"""The tables of a cluster in each database, opened as the suites of stores open a store."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pytest
import sqlalchemy as sa

from scheduler_service.hosts.dapr.cluster_jobs import claim_of
from scheduler_service.persistence.cluster.nodes import Nodes, SharedEvents
from scheduler_service.persistence.cluster.shared_registry import SqlRates, SqlSharedRegistry
from scheduler_service.persistence.common.packing import read_row_state
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.persistence.queues.sql_queues import SqlQueues
from scheduler_service.ports.errors import StoreError, StoreUncertain
from scheduler_service.ports.state import Commit, Settlement, StoredJob
from tests.unit.persistence.samples import ONE
from tests.unit.persistence.servers import shared_urls

postgres_url = shared_urls
SERVERS = ("postgres_url", "mariadb_cluster_url")


class ClusterStore:
    """The tables of a cluster with the handles that the suites of all stores have of one."""

    def __init__(self, database: JobDatabase) -> None:
        self.database = database
        self.shared = TurnStore(database=database)
        self.catalogue, self.definition = self.shared.catalogue, self.shared.definition
        self.deliveries, self.forget = self.shared.deliveries, self.shared.forget
        self.recall, self.remember = self.shared.recall, self.shared.remember
        self.remember_first = self.shared.remember_first
        self.nodes = Nodes(database=database)
        self.events = SharedEvents(database=database)
        self.queues = SqlQueues(dialect=database.dialect, write=database.write_apart, read=database.read)
        self.registry = SqlSharedRegistry(database=database)
        self.rates = SqlRates(database=database)

    async def load(self, job_id: str) -> StoredJob | None:
        row = await self.shared.load(job_id)
        if row is None:
            return None
        assert row.state is not None
        return StoredJob(row.entry, row.sequence, read_row_state(row.state).document, row.due)

    async def commit(self, commit: Commit) -> None:
        await self.shared.claim(claim_of(commit, holder=ONE, at=0))

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        return await self.shared.claim_all([claim_of(commit, holder=ONE, at=0) for commit in commits])

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await self.shared.settle(settlements, 0, ONE)

    @classmethod
    async def open(cls, url: str) -> Self:
        return cls(await JobDatabase.open(url=url))

    async def close(self) -> None:
        await self.database.close()


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


@contextmanager
def unheard(database: JobDatabase, *, is_written: bool) -> Iterator[None]:
    """Nobody says of any write whether it was done; it was, or was undone."""
    write = database.write

    async def lose(work: Callable[[sa.Connection], object]) -> object:
        def run(connection: sa.Connection) -> StoreUncertain:
            work(connection)
            error = StoreUncertain("the server is gone")
            if is_written:
                return error  # it is raised once the transaction is committed
            raise error

        return await write(run)

    database.write = lose  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        database.write = write  # type: ignore[method-assign]
