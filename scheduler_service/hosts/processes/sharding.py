"""The shard of a job follows from its id alone, so that no table of it is needed."""

from collections.abc import Callable, Collection, Iterable
from zlib import crc32

ShardOf = Callable[[str], int]
"""The number of the shard in which a job lives."""

_MIX = 0x9E3779B1
_BITS = 0xFFFFFFFF


def make_shard_of(shards: int, pinned: Collection[str] = ()) -> ShardOf:
    """Divides ids evenly among `shards`; those of `pinned` live in shard 0, in the service's own process.

    The rule never changes: jobs are divided by it, and read by later versions.
    """
    first = frozenset(pinned)

    def shard_of(job_id: str) -> int:
        if shards == 1 or job_id in first:
            return 0
        # Ids that differ in little differ in few bits of the sum: the upper bits of a product have them all.
        return ((crc32(job_id.encode("utf-8", "surrogatepass")) * _MIX & _BITS) >> 16) % shards

    return shard_of


def positions_by_shard(job_ids: Iterable[str], shard_of: ShardOf) -> dict[int, list[int]]:
    """For each shard the positions in `job_ids` of its jobs, in their order."""
    positions: dict[int, list[int]] = {}
    for position, job_id in enumerate(job_ids):
        positions.setdefault(shard_of(job_id), []).append(position)
    return positions
