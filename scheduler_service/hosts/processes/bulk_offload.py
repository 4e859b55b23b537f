"""Offers the definitions of an array to worker processes, which create those that they recognize."""

import asyncio
from collections.abc import Mapping, Sequence

from scheduler_service.domain.replies import Reply
from scheduler_service.hosts.processes.remote_shard import RemoteShard
from scheduler_service.hosts.processes.sharding import ShardOf, positions_by_shard
from scheduler_service.ports.errors import StoreError


class BulkOffload:
    """Offers definitions to the shards in which their jobs live: `remotes` are those from 1 on."""

    def __init__(self, *, remotes: Sequence[RemoteShard], shard_of: ShardOf) -> None:
        self._remotes = remotes
        self._shard_of = shard_of

    def is_elsewhere(self, job_id: str) -> bool:
        """Whether the job lives in another process."""
        return self._shard_of(job_id) > 0

    async def offer(self, texts: Mapping[str, bytes], owner: str) -> Mapping[str, Reply | StoreError]:
        """The replies to the turns Created of those that were taken, by `jobId`; never raises StoreError.

        All shards are asked at once; the jobs belong to the service `owner`, or to none. Nothing was done for
        jobs that the answer does not name.
        """
        job_ids = list(texts)
        replies: dict[str, Reply | StoreError] = {}

        async def offer(shard: int, positions: list[int]) -> None:
            offered = [job_ids[position] for position in positions]
            answers = await self._remotes[shard - 1].offer([texts[job_id] for job_id in offered], owner)
            pairs = zip(offered, answers, strict=True)
            replies.update((job_id, reply) for job_id, reply in pairs if reply is not None)

        shards = positions_by_shard(job_ids, self._shard_of)
        await asyncio.gather(*(offer(shard, positions) for shard, positions in shards.items()))
        return replies
