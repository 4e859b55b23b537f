"""Definitions on offer: worker processes create those that they know, before the service looks at them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from scheduler_service.domain.replies import Reply
from scheduler_service.hosts.processes.sharding import ShardOf, positions_by_shard
from scheduler_service.ports.errors import StoreError


class OffloadTarget(Protocol):
    """A share in another process, to which definitions can be offered."""

    async def offer(self, texts: Sequence[bytes]) -> Sequence[Reply | StoreError | None]:
        """For each the reply of its turn Created, or its error; None: nothing was done. Never raises."""


class BulkOffload:
    """Offers definitions to the shares in which their jobs live: `others` are those from 1 on."""

    def __init__(self, *, others: Sequence[OffloadTarget], home: ShardOf) -> None:
        self._others = others
        self._home = home

    def is_elsewhere(self, job_id: str) -> bool:
        """Whether the job lives in another process, whatever it is."""
        return self._home(job_id) > 0

    async def offer(self, texts: Mapping[str, bytes]) -> Mapping[str, Reply | StoreError]:
        """The replies to the turns Created of those that were taken, by `jobId`; never raises StoreError.

        All shares are asked at once. About jobs that the answer does not name nothing was done.
        """
        job_ids = list(texts)
        answers: dict[str, Reply | StoreError] = {}

        async def ask(share: int, places: list[int]) -> None:
            some = [job_ids[place] for place in places]
            replies = await self._others[share - 1].offer([texts[job_id] for job_id in some])
            pairs = zip(some, replies, strict=True)
            answers.update((job_id, reply) for job_id, reply in pairs if reply is not None)

        shares = positions_by_shard(job_ids, self._home)
        await asyncio.gather(*(ask(share, places) for share, places in shares.items()))
        return answers
