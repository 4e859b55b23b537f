"""Loads jobs shortly before they are due, so that no firing waits for the disk."""

import asyncio
from collections.abc import Sequence

from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.turn import Turn

# Jobs that are read together are decoded together, which occupies the loop for about 2 ms.
BATCH_SIZE = 16


class Prefetch:
    """Brings jobs into memory, at most half as many at a time as are kept there.

    It decides nothing and has no authority: who is not there at its moment is loaded then.
    """

    def __init__(self, *, jobs: JobCache, turn: Turn, most: int) -> None:
        self._jobs = jobs
        self._turn = turn
        self._most = most // 2

    async def load(self, job_ids: Sequence[str]) -> None:
        """Loads the first of `job_ids`, except jobs that are in memory."""
        absent = [job_id for job_id in job_ids[: self._most] if self._jobs.find(job_id) is None]
        for start in range(0, len(absent), BATCH_SIZE):
            await asyncio.gather(*map(self._load, absent[start : start + BATCH_SIZE]))

    async def _load(self, job_id: str) -> None:
        locked = self._jobs.enter(job_id)
        await locked.acquire()
        try:
            await self._turn.read(locked.cached)
        except Exception:  # noqa: BLE001 - one job that cannot be loaded must not stop the others
            return  # its ring meets the same error, and logs it
        finally:
            self._jobs.leave(locked)
