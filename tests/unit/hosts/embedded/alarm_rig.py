"""The alarms of the embedded host over a store in memory."""

import asyncio
from collections.abc import Callable
from typing import Any

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.hosts.embedded.alarms import EmbeddedAlarms
from scheduler_service.hosts.embedded.early_commit import EarlyCommit
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.state import StoredJob
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import SKEW, START
from tests.unit.hosts.memory_store import Disk, MemoryStore

STEADY = START - SKEW


class Tower:
    """Alarms over a disk of due times; a ring is written down and leaves the job without an alarm."""

    def __init__(
        self,
        *,
        ready: int = 1_000,
        early_commit: int = 0,
        burst_lead: int = 0,
        spent: Callable[[], float] = lambda: 0.0,
        clock: ManualClock | None = None,
    ) -> None:
        self.disk = Disk()
        self.store = MemoryStore(self.disk, [])
        self.clock = clock or ManualClock(wall=START, skew=SKEW)
        self.rung: list[str] = []
        self.moments: dict[str, int | None] = {}
        self.log: list[str] = []
        self.send_guard: asyncio.Event | None = None
        self.alarms = EmbeddedAlarms(
            store=self.store,
            clock=self.clock,
            ring=self._ring,
            log=self._write,
            ready=ready,
            early_commit=EarlyCommit(usual=early_commit, longest=burst_lead),
            elapsed=spent,
        )

    def set(self, job_id: str, wall: int | None = None, steady: int | None = None) -> Due:
        """Writes an alarm to the disk; moments count from now."""
        due = Due(None if wall is None else START + wall, None if steady is None else STEADY + steady)
        self.disk.jobs[job_id] = StoredJob(entry(job_id), 1, b"", due)
        return due

    async def advance(self, pause: int) -> None:
        """The clock runs on, from call to call."""
        await self.clock.run_on(pause, self.settle)

    async def settle(self) -> None:
        """Everything that can go on does."""
        for _ in range(60):
            await asyncio.sleep(0)

    async def _ring(self, job_id: str, moment: int | None) -> None:
        self.moments[job_id] = moment
        if self.send_guard is not None:
            await self.send_guard.wait()
        self.rung.append(job_id)
        self.set(job_id)
        await self.alarms.arm(job_id, Due())

    def _write(self, event: str, /, **keys: object) -> None:
        self.log.append(event)


def entry(job_id: str, **members: Any) -> CatalogueEntry:
    """A line of the catalogue that says nothing."""
    values: dict[str, Any] = {
        "job_id": job_id, "uid": job_id, "tenant": "default", "job_name": "", "object_id": None,
        "creator": "", "kind": "cron", "state": JobState.ACTIVE, "revision": 1, "labels": {},
        "parent_job": None, "parent_execution": None, "next_fire": None, "execute_number": 0,
        "request_counts": 0, "missed": 0, "latest": b"null", "created_at": 0, "updated_at": 0,
    }  # fmt: skip
    return CatalogueEntry(**values | members)
