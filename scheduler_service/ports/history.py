"""The history, as a turn sees it: it takes records, and never makes a turn wait."""

from typing import Protocol

import msgspec

from scheduler_service.domain.records import Record


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The records of one turn, masked and cut already; unique by (uid, sequence)."""

    uid: str
    job_id: str
    tenant: str
    sequence: int
    at: int
    records: tuple[Record, ...]


class History(Protocol):
    """Takes records; never makes a turn wait."""

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Hands over a turn's records. `durable`: they lie in the store's `unwritten` until confirmed."""

    async def flush(self) -> None:
        """Returns when everything handed over so far is written. Raises StoreUnavailable."""

    async def close(self) -> None:
        """Writes what was handed over, then lets go of the file."""
