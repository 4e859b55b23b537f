"""What the service around an embedded host asks of its store, beyond what turns need (ports.StateStore)."""

from collections.abc import Awaitable
from typing import Protocol

from scheduler_service.persistence.state.catalogue import Catalogue
from scheduler_service.ports import StateStore
from scheduler_service.ports.instances import Queues


class OpenStore(StateStore, Protocol):
    """A store that this process alone writes to, until `close`."""

    @property
    def boot(self) -> int:
        """The number of this start over the store, from 1; durable before anything else is written."""

    @property
    def node_id(self) -> str:
        """The node's name, kept from start to start."""

    @property
    def catalogue(self) -> Catalogue:
        """Answers lists."""

    @property
    def queues(self) -> Queues:
        """The parts of queues."""

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes a destroyed job, its counters and definitions; False: there is none. Raises StoreError."""

    async def clock_skew(self) -> int:
        """The steady clock's distance as it was saved last, in ms; 0: never. Raises StoreUnavailable."""

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        """Keeps `skew` (ms) for the next start; ends when it is durable. Raises StoreError."""
