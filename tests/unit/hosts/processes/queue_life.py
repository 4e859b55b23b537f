"""Queues of several shards, and what happens to them."""

from scheduler_service.ports.errors import StoreUncertain
from tests.unit.hosts.processes.memory_shards import MemoryShards


def asked(store: MemoryShards, name: str) -> list[int]:
    """How often each shard was asked so."""
    return [calls.made.count(name) for calls in store.calls]


async def unsure() -> None:
    raise StoreUncertain("Whether it was written is unknown: the shard went away.")
