"""The tables of a cluster, opened as the suites of stores open a store."""

from collections.abc import Sequence
from typing import Self

from scheduler_service.hosts.dapr.job_store import claim_of
from scheduler_service.persistence.common.row_state import read_row_state
from scheduler_service.persistence.queues.sql_queues import SqlQueues
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.events import SharedEvents
from scheduler_service.persistence.sql_cluster.nodes import Nodes
from scheduler_service.persistence.sql_cluster.rates import SqlRates
from scheduler_service.persistence.sql_cluster.shared_registry import SqlSharedRegistry
from scheduler_service.persistence.sql_cluster.store import SharedStore
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Commit, Settlement, StoredJob
from tests.unit.persistence.samples import ONE


class ClusterStore:
    """The tables of a cluster with the handles that the suites of all stores have of one."""

    def __init__(self, database: SharedDatabase) -> None:
        self.database = database
        self.shared = SharedStore(database=database)
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
        return cls(await SharedDatabase.open(url=url))

    async def close(self) -> None:
        await self.database.close()
