"""The history as turns use it."""

from collections.abc import Container
from typing import Protocol

import msgspec

from scheduler_service.domain.records import AnyRecord


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The records of one turn, masked and cut already; unique by (uid, sequence).

    Stores keep it as an array.
    """

    uid: str
    job_id: str
    tenant: str
    sequence: int
    at: int
    records: tuple[AnyRecord, ...]


class History(Protocol):
    """Takes records; never makes a turn wait."""

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Appends a turn's records. `durable`: the store keeps them in `unwritten` until confirmed, so that
        they are accepted, and left there, also after the end.
        """

    def is_behind(self) -> bool:
        """Whether so much waits in memory to be written that what can wait should make no more of it.

        False where nothing can be written at all: what has to be done then goes on without the history.
        """

    async def flush(self) -> None:
        """Returns when everything appended so far is written. Raises StoreUnavailable."""

    async def dismiss_lost(self, name: str, holders: Container[str], now: int) -> bool:
        """Gives up a delivery that is pending in the history, durably; False: there is none, or one of
        `holders` has it. `name` is its id with its tenant, as a job's key; `now` is wall ms.

        Raises StoreError.
        """

    async def close(self) -> None:
        """Writes what was appended, then closes the history."""
