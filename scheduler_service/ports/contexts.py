"""Where the contexts of qos 1 lie, if not in the row of their job."""

from collections.abc import Sequence
from typing import Protocol


class Contexts(Protocol):
    """Versions of a job's contexts. A version is written once, and its number is never used again.

    The row of the job names the version that counts. So what comes late, or was written for a turn that never
    became durable, is harmless: no row names it. For the same reason calls may overtake each other.
    """

    async def put(self, job_id: str, version: int, content: bytes, unused: Sequence[int]) -> None:
        """Keeps `content`; it is durable when this returns. Raises StoreError: perhaps it is there.

        May remove the versions `unused`, which no row names any more or ever will.
        """

    async def get(self, job_id: str, version: int) -> bytes | None:
        """What was put under `version`; None: the store does not have it. Raises StoreUnavailable."""

    async def drop(self, job_id: str, unused: Sequence[int]) -> None:
        """Removes these versions; one that is not there is no error. Raises StoreError."""
