"""Loads jobs shortly before they are due, so that at their moment no turn waits for the disk."""

import asyncio
from collections.abc import Sequence

from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.turn import Turn

# What comes back together is decoded together, and holds up what is due meanwhile: about 2 ms.
AT_ONCE = 16


class Prefetch:
    """Brings jobs into memory, at most half as many at a time as are kept there.

    It decides nothing and has no authority: who is not there at its moment is loaded then.
    """

    def __init__(self, *, actors: JobCache, turn: Turn, most: int) -> None:
        self._actors = actors
        self._turn = turn
        self._most = most // 2

    async def load(self, job_ids: Sequence[str]) -> None:
        """Loads the first of `job_ids`; a job that is in memory is left alone."""
        absent = [job_id for job_id in job_ids[: self._most] if self._actors.find(job_id) is None]
        for start in range(0, len(absent), AT_ONCE):
            await asyncio.gather(*map(self._load, absent[start : start + AT_ONCE]))

    async def _load(self, job_id: str) -> None:
        actor = self._actors.enter(job_id)
        await actor.acquire()
        try:
            await self._turn.read(actor.held)
        except Exception:  # noqa: BLE001 - a job that cannot be loaded must not stop the reading of alarms
            return  # its ring meets the same, and says so
        finally:
            self._actors.leave(actor)
