"""What outlives a process: the job store, in files of SQLite, and the archive of the history.

The store of a node is the real one behind a front that decides when a write reaches it, whether it does, and
whether the node hears of it. Nothing of a node goes on while the real store works, so what is durable at a
kill is what was answered by then, and what was under way (`after commit` passes unheard).
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.records import Record
from scheduler_service.domain.wire import Holder, LastBegun
from scheduler_service.hosts.begun_executions import BegunMark
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch, History
from scheduler_service.ports.state import Commit, OpenJob, Remembered, Settlement, StateStore, StoredJob
from tests.simulation.faults import Risks, StoreTrouble
from tests.simulation.loop import VirtualLoop

T = TypeVar("T")
Put = Callable[[SqliteStateStore], Awaitable[Any]]
Waiting = tuple[Commit | None, Put, "asyncio.Future[Any]"]
SLOWEST_SECONDS = 4.0
"""So long a write takes at most that began while the store was slow."""


class Written(msgspec.Struct, frozen=True):
    """A commit as it became durable: at which second of the world, and by which life of a node."""

    at: float
    order: int
    life: str
    commit: Commit


class Archive:
    """The history as readers find it: records by (uid, sequence), a repetition changes nothing.

    `torn` are repetitions that are about something else. Moments may differ: of a turn that was decided ahead
    and began late a crash forgets the delay, and a try of a delivery whose end was not kept is made again.
    """

    def __init__(self) -> None:
        self.batches: dict[tuple[str, int], Batch] = {}
        self.torn: list[tuple[Batch, Batch]] = []

    def insert(self, batch: Batch) -> None:
        """Takes a batch, if it is not there yet."""
        known = self.batches.setdefault((batch.uid, batch.sequence), batch)
        if known is not batch and list(map(_name, known.records)) != list(map(_name, batch.records)):
            self.torn.append((known, batch))

    def records(self, job_id: str) -> list[tuple[Batch, Record]]:
        """Those of all lives of a job, in their order."""
        own = sorted(
            (one for one in self.batches.values() if one.job_id == job_id), key=lambda one: one.sequence
        )
        return [(batch, record) for batch in own for record in batch.records]


class Disk:
    """The folder of a node's store, from life to life."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._generation = 0
        self.store: SqliteStateStore | None = None
        self.archive = Archive()
        self.written: list[Written] = []
        self._mark: tuple[Holder, BegunMark] | None = None

    def mark_of(self, holder: Holder) -> BegunMark:
        """How far this process lets executions begin, and what the last one left of that."""
        last = None if self._mark is None else LastBegun(self._mark[0], self._mark[1].moment)
        self._mark = holder, BegunMark(last=last)
        return self._mark[1]

    async def open(self, loop: VirtualLoop) -> SqliteStateStore:
        """The store over what the last process left, who is dead by now. Raises StoreError."""
        self.store = await loop.foreign(self._open())
        return self.store

    async def close(self, loop: VirtualLoop) -> None:
        """Ends the threads of the last one."""
        if self.store is not None:
            await loop.foreign(self.store.close())

    def note(self, life: str, commit: Commit, loop: VirtualLoop) -> None:
        """A commit has become durable."""
        self.written.append(Written(loop.time(), loop.tick(), life, commit))

    async def _open(self) -> SqliteStateStore:
        """The files are copied as they are: the last process has written nothing at its end."""
        before, self._generation = self._base / str(self._generation), self._generation + 1
        folder = self._base / str(self._generation)
        if before.exists():
            shutil.copytree(before, folder)
        if self.store is not None:
            await self.store.close()
            shutil.rmtree(before)
        return await SqliteStateStore.open(folder=folder, durability="process")


class SimulatedStore(StateStore):
    """The store as one process has it."""

    def __init__(self, *, inner: SqliteStateStore, disk: Disk, risks: Risks) -> None:
        self._inner = inner
        self._disk = disk
        self._risks = risks
        self._loop = risks.process.loop
        self._line: list[Waiting] = []
        self._is_writing = False

    @property
    def boot(self) -> int:
        """The number of this start."""
        return self._inner.boot

    @property
    def commits_waiting(self) -> int:
        return len(self._line)

    async def load(self, job_id: str) -> StoredJob | None:
        await self._risks.pass_by("before load")
        return await self._read(lambda: self._inner.load(job_id))

    async def definition(self, uid: str, revision: int) -> bytes | None:
        return await self._read(lambda: self._inner.definition(uid, revision))

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        return await self._read(lambda: self._inner.recall(scope, key, since))

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._read(lambda: self._inner.due_wall(before, limit, after))

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._read(lambda: self._inner.due_steady(before, limit, after))

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        return await self._read(lambda: self._inner.open_jobs(after, limit, marks))

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        return await self._read(lambda: self._inner.deliveries(after, limit))

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        return await self._read(lambda: self._inner.unwritten(after, limit))

    async def clock_skew(self) -> int:
        """What was saved last."""
        return await self._read(lambda: self._inner.clock_skew())

    def commit(self, commit: Commit) -> Awaitable[None]:
        return self._put(commit, _nothing)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        found = await asyncio.gather(*map(self.commit, commits), return_exceptions=True)
        for one in found:
            if one is not None and not isinstance(one, StoreError):
                raise one
        return [one if isinstance(one, StoreError) else None for one in found]

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        return self._put(None, lambda store: store.settle(settlements))

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        return self._put(None, lambda store: store.remember(remembered))

    def remember_first(self, remembered: Remembered, since: int) -> Awaitable[bool]:
        return self._put(None, lambda store: store.remember_first(remembered, since))

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        return self._put(None, lambda store: store.written(keys))

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        """Kept for the next start."""
        return self._put(None, lambda store: store.save_clock_skew(skew))

    async def close(self) -> None:
        while self._line:
            await asyncio.wait({answer for _, _, answer in self._line})
        await self._loop.foreign(self._inner.close())

    async def _read(self, read: Callable[[], Awaitable[T]]) -> T:
        trouble = self._risks.troubles.of(StoreTrouble)
        await asyncio.sleep(self._pause(trouble))
        if trouble == "unreadable":
            raise StoreUnavailable("the store cannot be read")
        return await self._loop.foreign(read())

    def _put(self, commit: Commit | None, put: Put) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._line.append((commit, put, answer))
        if not self._is_writing:
            self._is_writing = True
            self._risks.process.start(self._write())
        return answer

    def _pause(self, trouble: str) -> float:
        return (
            self._risks.chance.uniform(0.2, SLOWEST_SECONDS)
            if trouble == "slow"
            else self._risks.chance.uniform(0.0001, 0.004)
        )

    async def _write(self) -> None:
        """Group by group, each with the fate that it meets."""
        while self._line:
            trouble = self._risks.troubles.of(StoreTrouble)
            await asyncio.sleep(self._pause(trouble))
            group, self._line = self._line, []
            kind = "commit" if any(commit for commit, _, _ in group) else "write"
            await self._risks.pass_by(f"before {kind}")
            if trouble == "refused":
                self._answer(group, [StoreUnavailable("the store refuses it")] * len(group))
                continue
            if trouble != "vanished":
                verdicts = await self._loop.foreign(self._make_durable(group))
                await self._risks.pass_by(f"after {kind}")
            if trouble in ("vanished", "silent"):
                verdicts = [StoreUncertain("the store does not say whether it has it")] * len(group)
            self._answer(group, verdicts)
        self._is_writing = False

    async def _make_durable(self, group: Sequence[Waiting]) -> list[Any]:
        """The verdicts of a group, in its order: its commits are one transaction, the others follow."""
        commits = [commit for commit, _, _ in group if commit is not None]
        errors = iter(await self._inner.commit_all(commits) if commits else ())
        verdicts: list[Any] = []
        for commit, put, _ in group:
            if commit is None:
                try:
                    verdicts.append(await put(self._inner))
                except StoreError as error:
                    verdicts.append(error)
            else:
                verdicts.append(next(errors))
                if verdicts[-1] is None:
                    self._disk.note(self._risks.process.name, commit, self._loop)
        return verdicts

    def _answer(self, group: Iterable[Waiting], verdicts: Iterable[Any]) -> None:
        for (_, _, answer), verdict in zip(group, verdicts, strict=True):
            if answer.done():
                continue
            if isinstance(verdict, StoreError):
                answer.set_exception(verdict)
                answer.exception()  # it may be nobody's any more
            else:
                answer.set_result(verdict)


class SimulatedHistory(History):
    """One process's way into the archive: what it holds in memory dies with it.

    `confirm`, to be set, tells the store what the archive has.
    """

    confirm: Callable[[Sequence[tuple[str, int]]], Awaitable[None]]

    def __init__(self, *, archive: Archive, risks: Risks) -> None:
        self._archive = archive
        self._risks = risks
        self._line: list[tuple[Batch, bool]] = []
        self._task: asyncio.Task[None] | None = None

    def append(self, batch: Batch, *, durable: bool) -> None:
        self._line.append((batch, durable))
        if self._task is None or self._task.done():
            self._task = self._risks.process.start(self._write())

    def is_behind(self) -> bool:
        return False

    async def flush(self) -> None:
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def close(self) -> None:
        await self.flush()

    async def _write(self) -> None:
        while self._line:
            await asyncio.sleep(self._risks.chance.choice((0.02, 0.3, 1.0)))
            if self._risks.troubles.is_history_away:
                continue
            group, self._line = self._line, []
            await self._risks.pass_by("before history")
            for batch, _ in group:
                self._archive.insert(batch)
            await self._risks.pass_by("after history")
            keys = [(batch.uid, batch.sequence) for batch, durable in group if durable]
            if keys:
                await self._confirm(keys)

    async def _confirm(self, keys: Sequence[tuple[str, int]]) -> None:
        while True:
            try:
                await self.confirm(keys)
            except StoreError:
                await asyncio.sleep(0.2)
            else:
                return


def _name(record: Record) -> tuple[object, ...]:
    """What a record is about."""
    names = ("execute_number", "request_counts", "index", "serial", "planned_at", "delivery_id")
    return (type(record), *(getattr(record, name, None) for name in names))


async def _nothing(_: SqliteStateStore) -> None:
    """Commits are written together."""
