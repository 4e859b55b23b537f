"""All shares of a service together: what is asked of a job goes to the share in which it lives."""

import asyncio
from collections.abc import Sequence

from scheduler_service.domain.replies import Reply
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.processes.fan_out import all_of, one_of
from scheduler_service.hosts.processes.rpc_methods import ShardStatus
from scheduler_service.hosts.processes.shard import Shard
from scheduler_service.hosts.processes.sharding import ShardOf, positions_by_shard
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError


class Shards:
    """What is asked of the jobs of a service, in several shares; `home` says where each job lives."""

    def __init__(self, *, shares: Sequence[Shard], home: ShardOf) -> None:
        self._shares = shares
        self._home = home

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """Takes one turn in the job's share and returns its reply after its commit. Raises StoreError."""
        return await self._of(job_id).deliver(job_id, command)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's line as its latest commit left it, where it is at hand; else ask the catalogue."""
        return self._of(job_id).peek(job_id)

    async def create_all(self, definitions: Sequence[Definition]) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, the writes of one share as one group. Never raises StoreError."""
        places = positions_by_shard((one.program.job_id for one in definitions), self._home)
        answers: dict[int, Reply | StoreError] = {}

        async def create(number: int, some: list[int]) -> None:
            found = await self._shares[number].create_all([definitions[place] for place in some])
            answers.update(zip(some, found, strict=True))

        await asyncio.gather(*(create(number, some) for number, some in places.items()))
        return [answers[place] for place in range(len(definitions))]

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        return await self._of(job_id).read(job_id)

    async def resend(self, delivery_id: str) -> bool:
        """As `hosts.notification_sender.Courier.resend`."""
        return await one_of([share.resend(delivery_id) for share in self._shares])

    async def dismiss(self, delivery_id: str) -> bool:
        """As `hosts.notification_sender.Courier.dismiss`."""
        return await one_of([share.dismiss(delivery_id) for share in self._shares])

    async def resend_outbox(self) -> int:
        """As `hosts.notification_sender.Courier.resend_outbox`."""
        return sum(await all_of([share.resend_outbox() for share in self._shares]))

    async def flush(self) -> None:
        """Returns when the history has what all shares recorded so far. Raises StoreUnavailable."""
        await all_of([share.flush() for share in self._shares])

    async def standing(self) -> ShardStatus:
        """How many jobs are in memory and how many run, in all processes that answer."""
        found = await asyncio.gather(*(share.standing() for share in self._shares), return_exceptions=True)
        told = [one for one in found if isinstance(one, ShardStatus)]
        return ShardStatus(held=sum(one.held for one in told), running=sum(one.running for one in told))

    @property
    def missing(self) -> list[str]:
        """What is not ready, in words."""
        return [name for share in self._shares for name in share.missing]

    def _of(self, job_id: str) -> Shard:
        return self._shares[self._home(job_id)]
