"""The jobs of a service: one shard in its own process, or several, with each job in the shard of its id."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from scheduler_service.domain.replies import Reply
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.processes.fan_out import all_of, one_of
from scheduler_service.hosts.processes.rpc_methods import ShardStatus
from scheduler_service.hosts.processes.sharding import ShardOf, positions_by_shard
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import History


class Shard(Protocol):
    """The jobs of a shard, their notifications and their history. All raise StoreError."""

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """Takes one turn and returns its reply after its commit (`ports.Deliver`)."""

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's entry after its latest commit, where it is in memory; else the catalogue has it."""

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, the writes of one shard as one group. Never raises StoreError.

        The jobs belong to the service `owner`; empty: to none.
        """

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn, contexts of qos 0 as well."""

    async def resend(self, delivery_id: str) -> bool:
        """Tries a notification at once; False: there is none."""

    async def dismiss(self, delivery_id: str) -> bool:
        """Gives a notification up; False: there is none."""

    async def resend_outbox(self) -> int:
        """Tries all notifications in the outbox; returns how many."""

    async def flush(self, job_id: str | None = None) -> None:
        """Returns when the history has all that was recorded so far, of this job or of all."""

    async def status(self) -> ShardStatus:
        """How many jobs are in memory, and how many of them run, in all processes that answer."""

    @property
    def missing(self) -> Sequence[str]:
        """What is not ready, as text."""


class OwnShard:
    """The shard of the service's own process."""

    def __init__(self, *, host: EmbeddedHost, history: History) -> None:
        self._host = host
        self.deliver = host
        self.peek = host.peek
        self.create_all = host.create_all
        self.read = host.read
        self.resend = host.notifications.resend
        self.dismiss = host.notifications.dismiss
        self.resend_outbox = host.notifications.resend_outbox
        self._history = history

    async def flush(self, job_id: str | None = None) -> None:
        """Returns when the history has all that was recorded so far."""
        await self._history.flush()

    async def status(self) -> ShardStatus:
        """The host's figures."""
        return ShardStatus(held=self._host.jobs_held, running=self._host.running)

    @property
    def missing(self) -> Sequence[str]:
        """The host, until it has recovered."""
        return [] if self._host.is_ready else ["host"]


class Shards:
    """Several shards as one `Shard`; `shard_of` has the number of each job's."""

    def __init__(self, *, shards: Sequence[Shard], shard_of: ShardOf) -> None:
        self._shards = shards
        self._shard_of = shard_of

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """Takes one turn in the job's shard."""
        return await self._shard(job_id).deliver(job_id, command)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's entry, where it is in this process's memory."""
        return self._shard(job_id).peek(job_id)

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, in all shards at once."""
        positions = positions_by_shard((one.program.key for one in definitions), self._shard_of)
        replies: dict[int, Reply | StoreError] = {}

        async def create(shard: int, some: list[int]) -> None:
            own = [definitions[position] for position in some]
            created = await self._shards[shard].create_all(own, owner)
            replies.update(zip(some, created, strict=True))

        await asyncio.gather(*(create(shard, some) for shard, some in positions.items()))
        return [replies[position] for position in range(len(definitions))]

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn."""
        return await self._shard(job_id).read(job_id)

    async def resend(self, delivery_id: str) -> bool:
        """Tries a notification at once: its id does not name its shard, so all are asked."""
        return await one_of([shard.resend(delivery_id) for shard in self._shards])

    async def dismiss(self, delivery_id: str) -> bool:
        """Gives a notification up, in whichever shard it is."""
        return await one_of([shard.dismiss(delivery_id) for shard in self._shards])

    async def resend_outbox(self) -> int:
        """Tries the notifications in the outboxes of all shards."""
        return sum(await all_of([shard.resend_outbox() for shard in self._shards]))

    async def flush(self, job_id: str | None = None) -> None:
        """Returns when the history has all that all shards recorded so far, or the shard of this job."""
        if job_id is not None:
            await self._shard(job_id).flush()
            return
        await all_of([shard.flush() for shard in self._shards])

    async def status(self) -> ShardStatus:
        """The sum over the processes that answer."""
        answers = await asyncio.gather(*(shard.status() for shard in self._shards), return_exceptions=True)
        known = [one for one in answers if isinstance(one, ShardStatus)]
        return ShardStatus(held=sum(one.held for one in known), running=sum(one.running for one in known))

    @property
    def missing(self) -> list[str]:
        """What is not ready in any shard."""
        return [name for shard in self._shards for name in shard.missing]

    def _shard(self, job_id: str) -> Shard:
        return self._shards[self._shard_of(job_id)]
