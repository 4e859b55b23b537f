"""What the service sees of all its stores together: its own, and those of its worker processes."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from scheduler_service.hosts.processes.fan_out import one_of
from scheduler_service.hosts.processes.merged_catalogue import MergedCatalogue
from scheduler_service.hosts.processes.merged_queues import MergedQueues
from scheduler_service.hosts.processes.shard import RemoteShard
from scheduler_service.hosts.processes.sharding import ShardOf
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.queues import Queues, ShardQueues
from scheduler_service.ports.state import Remembered


class ServiceStore(Protocol):
    """What the service asks of its store beside turns. All raise StoreError."""

    @property
    def catalogue(self) -> Catalogue:
        """Answers lists."""

    @property
    def queues(self) -> Queues:
        """The parts of queues."""

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """As in `ports.StateStore`."""

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes a destroyed job, its counters and definitions; False: there is none."""

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """As in `ports.StateStore`."""

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        """As in `ports.StateStore`."""


class ShardStore(ServiceStore, Protocol):
    """The store of one shard, in this process or another."""

    @property
    def queues(self) -> ShardQueues:
        """The parts of queues."""


class MergedStore:
    """Lists, queues, definitions, answers under a key. What belongs to no job lies in the service's own."""

    def __init__(self, *, own: ShardStore, remotes: Sequence[RemoteShard], home: ShardOf) -> None:
        self._shares: tuple[ShardStore | RemoteShard, ...] = (own, *remotes)
        self._home = home
        self.catalogue = MergedCatalogue(catalogues=[share.catalogue for share in self._shares], home=home)
        self.queues = MergedQueues(shares=[share.queues for share in self._shares])
        self.recall = own.recall
        self.remember = own.remember

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None. A life does not tell its share: all are asked.

        Raises StoreError where none has it and one cannot be asked.
        """
        return await one_of([share.definition(uid, revision) for share in self._shares])

    async def forget(self, job_id: str) -> bool:
        """Removes a destroyed job; False: there is none. Raises StoreError."""
        return await self._shares[self._home(job_id)].forget(job_id)
