"""The tables of a cluster, opened as the suites of stores open a store."""

from typing import Self

from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.job_store import claim_of
from scheduler_service.persistence.queues.sql_queues import SqlQueues
from scheduler_service.persistence.sql_cluster.catalogue import SharedCatalogue
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.events import SharedEvents
from scheduler_service.persistence.sql_cluster.nodes import Nodes
from scheduler_service.persistence.sql_cluster.rates import SqlRates
from scheduler_service.persistence.sql_cluster.shared_registry import SqlSharedRegistry
from scheduler_service.persistence.sql_cluster.store import SharedStore
from scheduler_service.ports.state import Commit

ONE, TWO = Holder("one", "1"), Holder("two", "2")


class ClusterStore:
    """The tables of a cluster with the handles that the suites of catalogues and queues have of a store."""

    def __init__(self, database: SharedDatabase) -> None:
        self.database = database
        self.shared = SharedStore(database=database)
        self.catalogue = SharedCatalogue(database=database)
        self.nodes = Nodes(database=database)
        self.events = SharedEvents(database=database)
        self.queues = SqlQueues(dialect=database.dialect, write=database.write_apart, read=database.read)
        self.registry = SqlSharedRegistry(database=database)
        self.rates = SqlRates(database=database)
        self.recall, self.remember_first = self.shared.recall, self.shared.remember_first

    async def commit(self, commit: Commit) -> None:
        await self.shared.claim(claim_of(commit, holder=ONE, at=0, expected=commit.expected))

    @classmethod
    async def open(cls, url: str) -> Self:
        return cls(await SharedDatabase.open(url=url))

    async def close(self) -> None:
        await self.database.close()
