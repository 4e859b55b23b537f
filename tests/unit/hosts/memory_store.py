"""A real StateStore in memory, over a disk that outlives it, able to fail by script."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto

import msgspec

from scheduler_service.domain.document import Head
from scheduler_service.domain.effects import Delivery
from scheduler_service.ports.errors import (
    DeliveryUnreadable,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    StoreUncertain,
)
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import (
    NOTHING,
    Commit,
    OpenJob,
    Remembered,
    Settlement,
    StateStore,
    StoredJob,
)

Entry = tuple[object, ...]


class Fate(Enum):
    """What becomes of a commit."""

    WRITTEN = auto()
    REFUSED = auto()  # nothing is written, and the store says so
    SILENT = auto()  # it is written, but the store does not say so
    VANISHED = auto()  # it is not written, and the store does not say so
    LATE = auto()  # another writer was first


class Disk:
    """What outlives a process."""

    def __init__(self) -> None:
        self.jobs: dict[str, StoredJob] = {}
        self.definitions: dict[tuple[str, int], bytes] = {}
        self.unwritten: dict[tuple[str, int], Batch] = {}
        self.deliveries: dict[str, Delivery] = {}
        self.remembered: dict[tuple[str, str], Remembered] = {}
        self.commits: list[Commit] = []


class MemoryStore(StateStore):
    """One process's view of a disk. `journal` hears of every commit before and after it is written."""

    def __init__(self, disk: Disk, journal: list[Entry]) -> None:
        self.disk = disk
        self.journal = journal
        self.fates: deque[Fate] = deque()
        self.groups: list[int] = []  # the commits of each call of `commit_all`
        self.is_down = False
        self.is_closed = False
        self.reads = 0
        self.loads = 0
        self.load_gates: deque[asyncio.Event] = deque()  # of the next loads, between reading and answering
        self.during_read: Callable[[], Awaitable[None]] | None = None
        self._queue: deque[tuple[Commit, asyncio.Future[None]]] = deque()
        self._is_held = False
        self.damaged_deliveries: set[str] = set()
        self.deliveries_fault: Exception | None = None
        self.deliveries_gate: asyncio.Semaphore | None = None  # one for each page

    @property
    def commits_waiting(self) -> int:
        return len(self._queue)

    def hold(self) -> None:
        """Commits wait from now on."""
        self._is_held = True

    def release(self) -> None:
        """What waited is written."""
        self._is_held = False
        self._write()

    async def load(self, job_id: str) -> StoredJob | None:
        self._check()
        self.loads += 1
        found = self.disk.jobs.get(job_id)
        if self.load_gates:
            await self.load_gates.popleft().wait()
        return found

    async def definition(self, uid: str, revision: int) -> bytes | None:
        self._check()
        return self.disk.definitions.get((uid, revision))

    def commit(self, commit: Commit) -> Awaitable[None]:
        self.journal.append(("commit", commit.entry.job_id))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()
        self._queue.append((commit, answer))
        if not self._is_held:
            loop.call_soon(self._write)
        return answer

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        self.groups.append(len(commits))
        found = await asyncio.gather(*map(self.commit, commits), return_exceptions=True)
        assert all(one is None or isinstance(one, StoreError) for one in found)
        return [one if isinstance(one, StoreError) else None for one in found]

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        self._check()
        for settlement in settlements:
            delivery = settlement.delivery
            self.journal.append(("settle", delivery.delivery_id, delivery.state))
            if settlement.batch is not None:
                self.disk.unwritten[settlement.batch.uid, settlement.batch.sequence] = settlement.batch
            if settlement.done:
                self.disk.deliveries.pop(delivery.delivery_id, None)
            else:
                self.disk.deliveries[delivery.delivery_id] = delivery

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        self._check()
        known = self.disk.remembered.get((scope, key))
        return known if known is not None and known.created_at >= since else None

    async def remember(self, remembered: Remembered) -> None:
        self._check()
        self.disk.remembered[remembered.scope, remembered.key] = remembered

    async def remember_first(self, remembered: Remembered, since: int) -> bool:
        if await self.recall(remembered.scope, remembered.key, since) is not None:
            return False
        await self.remember(remembered)
        return True

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        found = [(job.due.wall, name) for name, job in self.disk.jobs.items() if job.due.wall is not None]
        return await self._select(found, before, limit, after)

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        found = [(job.due.steady, name) for name, job in self.disk.jobs.items() if job.due.steady is not None]
        return await self._select(found, before, limit, after)

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        self._check()
        found = sorted(name for name, job in self.disk.jobs.items() if job.entry.live and name > after)
        documents = {name: self.disk.jobs[name].document or b"" for name in found[:limit]}
        return [OpenJob(name, any(mark in text for mark in marks)) for name, text in documents.items()]

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        if self.deliveries_gate is not None and limit > 1:  # a page, and not one of them
            await self.deliveries_gate.acquire()
        if self.deliveries_fault is not None:
            raise self.deliveries_fault
        self._check()
        names = [name for name in sorted(self.disk.deliveries) if name > after][:limit]
        damaged = next((place for place, name in enumerate(names) if name in self.damaged_deliveries), None)
        if damaged == 0:
            raise DeliveryUnreadable(names[0].encode(), "damaged by script")
        return [self.disk.deliveries[name] for name in names[:damaged]]

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        self._check()
        return [self.disk.unwritten[key] for key in sorted(self.disk.unwritten) if key > after][:limit]

    async def written(self, keys: Sequence[tuple[str, int]]) -> None:
        self._check()
        for key in keys:
            self.disk.unwritten.pop(key, None)

    async def close(self) -> None:
        self.journal.append(("store closed",))
        self.is_closed = True

    def die(self) -> None:
        """The process is gone: what was not written will not be."""
        self._queue.clear()
        self.is_closed = True

    async def _select(
        self, found: list[tuple[int, str]], before: int, limit: int, after: int
    ) -> list[tuple[int, str]]:
        self._check()
        self.reads += 1
        rows = sorted(row for row in found if after < row[0] <= before)[:limit]
        if self.during_read is not None:
            await self.during_read()
        return rows

    def _check(self) -> None:
        if self.is_down or self.is_closed:
            raise StoreUnavailable("the store is away by script")

    def _write(self) -> None:
        while self._queue and not self._is_held:
            commit, answer = self._queue.popleft()
            if not answer.done():
                self._decide(commit, answer)

    def _decide(self, commit: Commit, answer: asyncio.Future[None]) -> None:
        fate = self.fates.popleft() if self.fates else Fate.WRITTEN
        if self.is_down or self.is_closed or fate is Fate.REFUSED:
            answer.set_exception(StoreUnavailable("refused by script"))
        elif fate is Fate.VANISHED:
            answer.set_exception(StoreUncertain("vanished by script"))
        elif fate is Fate.LATE:
            answer.set_exception(StoreConflict("late by script"))
        elif self._sequence(commit) != commit.expected:
            answer.set_exception(StoreConflict(f"not {commit.expected}"))
        else:
            self._apply(commit)
            self.journal.append(("written", commit.entry.job_id))
            if fate is Fate.SILENT:
                answer.set_exception(StoreUncertain("silent by script"))
            else:
                answer.set_result(None)

    def _sequence(self, commit: Commit) -> int:
        job = self.disk.jobs.get(commit.entry.job_id)
        if commit.expected == NOTHING and job is None:
            return NOTHING
        return 0 if job is None or job.document is None else job.sequence

    def _apply(self, commit: Commit) -> None:
        disk, entry = self.disk, commit.entry
        disk.commits.append(commit)
        disk.jobs[entry.job_id] = StoredJob(entry, commit.sequence, commit.document, commit.due)
        if commit.definition is not None:
            disk.definitions[entry.uid, entry.revision] = commit.definition
        if commit.batch is not None:
            disk.unwritten[commit.batch.uid, commit.batch.sequence] = commit.batch
        for delivery in commit.deliveries:
            disk.deliveries[delivery.delivery_id] = delivery
        if commit.document is None:
            kept = disk.remembered.items()
            disk.remembered = {place: one for place, one in kept if one.job_id != commit.entry.job_id}
        if commit.remembered is not None:
            disk.remembered[commit.remembered.scope, commit.remembered.key] = commit.remembered


def head_of(job: StoredJob) -> Head:
    """The head in a stored document, by the engine's own format."""
    assert job.document is not None
    return msgspec.convert(msgspec.msgpack.decode(job.document)["head"], Head)
