"""In which share a job lives: that follows from its id alone, so nobody has to keep it."""

from collections.abc import Callable, Collection, Iterable
from zlib import crc32

ShardOf = Callable[[str], int]
"""The number of the share in which a job lives."""

_MIX = 0x9E3779B1
_BITS = 0xFFFFFFFF


def make_shard_of(shares: int, pinned: Collection[str] = ()) -> ShardOf:
    """Divides ids evenly among `shares`; those of `pinned` live in share 0, whose process serves them.

    It never changes: files are divided by it, and are read by later versions.
    """
    first = frozenset(pinned)

    def home(job_id: str) -> int:
        if shares == 1 or job_id in first:
            return 0
        # Ids that differ in little differ in few bits of the sum: the upper bits of a product have them all.
        return ((crc32(job_id.encode("utf-8", "surrogatepass")) * _MIX & _BITS) >> 16) % shares

    return home


def positions_by_shard(job_ids: Iterable[str], home: ShardOf) -> dict[int, list[int]]:
    """At which places of `job_ids` the jobs of each share stand, in their order."""
    places: dict[int, list[int]] = {}
    for place, job_id in enumerate(job_ids):
        places.setdefault(home(job_id), []).append(place)
    return places
