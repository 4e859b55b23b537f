"""What outlives a process: the database of the jobs, in memory, and the archive of the history.

The store of a node is the real one, over a database that decides when a write reaches it, whether it does,
and whether the node hears of it. A write takes no time of the world, so what is durable at a kill is what was
answered by then, and what was under way (`after commit` passes unheard).
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import cache, partial
from typing import Any, TypeVar

import msgspec

from scheduler_service.domain.records import Record
from scheduler_service.domain.wire import Holder, LastBegun
from scheduler_service.hosts.begun_executions import BegunMark
from scheduler_service.persistence.job_store.database import GroupedWork, IsSingle, JobDatabase, JointWork
from scheduler_service.persistence.job_store.row_cache import KnownRows
from scheduler_service.persistence.job_store.state_store import (
    Owns,
    ServiceStart,
    SqlStateStore,
    begin_start,
)
from scheduler_service.persistence.sql.database import OpenDatabase
from scheduler_service.persistence.sql.sqlite import SqliteDialect
from scheduler_service.persistence.sqlite.database import open_writing
from scheduler_service.persistence.sqlite.store import IN_MEMORY
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch, History
from scheduler_service.ports.state import Commit
from tests.simulation.faults import Risks, StoreTrouble
from tests.simulation.loop import VirtualLoop

T = TypeVar("T")
Waiting = tuple[GroupedWork, "asyncio.Future[Any]"]
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


class SharedDatabase(JobDatabase):
    """A database in memory, without threads: work is done at once, where it is asked for."""

    def __init__(self, template: bytes) -> None:
        """A copy of `template`, which is a database that was serialized."""
        connection = sqlite3.connect(IN_MEMORY, isolation_level=None, cached_statements=256)
        connection.deserialize(template)
        self.dialect = SqliteDialect.over(connection, subject=IN_MEMORY)
        self._database = OpenDatabase(
            self.dialect, in_memory=True, unconfirmed=StoreUncertain, is_only_writer=True
        )
        self._on_written = lambda _: None

    def serve(self, items: Sequence[Any]) -> list[Any]:
        """The verdicts of one group, which is written."""
        return self._write(list(items), 0)

    _serve = serve

    def look(self, work: Callable[[Any], T]) -> T:
        """What `work` reads. Raises what reading raises."""
        (found,) = self._serve_reads([work])
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[return-value]

    async def read_soon(self, work: Callable[[Any], T]) -> T:
        return self.look(work)

    async def read_together(self, work: JointWork, value: object) -> Any:
        return await self.read_soon(lambda connection: work(connection, [value])[0])

    def write_together(
        self, work: JointWork, value: object, is_single: IsSingle | None = None, *, may_wait: bool = False
    ) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer_with(answer, self.serve([GroupedWork(work, value)])[0])
        return answer

    async def end_writing(self) -> None:
        """All is written."""

    async def close(self) -> None:
        """Of one process: others go on."""

    def drop(self) -> None:
        """Gives its memory back."""
        self._database.close()


@cache
def file_template() -> bytes:
    """The tables of a data folder."""
    with closing(open_writing(IN_MEMORY, durability="process")) as connection:
        return connection.serialize()


class Disk:
    """What a service has stored, from life to life."""

    def __init__(self, template: Callable[[], bytes] = file_template) -> None:
        self.database = SharedDatabase(template())
        self.reader = SqlStateStore(database=self.database, started=ServiceStart(0, ""))
        self.archive = Archive()
        self.written: list[Written] = []
        self._marks: dict[int, tuple[Holder, BegunMark]] = {}

    def mark_of(self, holder: Holder, shard: int) -> BegunMark:
        """How far this process lets executions begin, and what the last one of its shard left of that."""
        known = self._marks.get(shard)
        mark = BegunMark(last=known and LastBegun(known[0], known[1].moment))
        self._marks[shard] = holder, mark
        return mark

    def open(self, risks: Risks, owns: Owns) -> SqlStateStore:
        """The store of a new process, which has the jobs that it `owns`."""
        database = SimulatedDatabase(disk=self, risks=risks)
        begin = partial(begin_start, dialect=self.database.dialect, node_id="")
        (started,) = self.database.serve([begin])
        return SqlStateStore(database=database, started=started, owns=owns, known=KnownRows())

    def note(self, life: str, commit: Commit, loop: VirtualLoop) -> None:
        """A commit has become durable."""
        self.written.append(Written(loop.time(), loop.tick(), life, commit))


class SimulatedDatabase(SharedDatabase):
    """The shared database in the hands of one process: a write may be late, refused, or done unheard."""

    def __init__(self, *, disk: Disk, risks: Risks) -> None:
        self.dialect = disk.database.dialect
        self._disk = disk
        self._risks = risks
        self._line: list[Waiting] = []
        self._is_writing = False
        self._tell: Callable[[], None] = lambda: None

    def follow_writes(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    @property
    def commits_waiting(self) -> int:
        return len(self._line)

    async def read_soon(self, work: Callable[[Any], T]) -> T:
        await self._risks.pass_by("before read")
        trouble = self._risks.troubles.of(StoreTrouble)
        await asyncio.sleep(self._pause(trouble))
        if trouble == "unreadable":
            raise StoreUnavailable("the store cannot be read")
        return self._disk.database.look(work)

    read = read_soon

    async def write(self, work: Callable[[Any], T]) -> T:
        return await self.write_together(_each, work)  # type: ignore[no-any-return]

    write_apart = write

    def write_together(
        self, work: JointWork, value: object, is_single: IsSingle | None = None, *, may_wait: bool = False
    ) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self._risks.process.loop.create_future()
        self._line.append((GroupedWork(work, value), answer))
        if not self._is_writing:
            self._is_writing = True
            self._risks.process.start(self._write_line())
        return answer

    async def write_all(self, work: JointWork, values: Sequence[object]) -> list[Any]:
        answers = (self.write_together(work, value) for value in values)
        return await asyncio.gather(*answers, return_exceptions=True)

    async def end_writing(self) -> None:
        while self._line:
            await asyncio.wait({answer for _, answer in self._line})

    def _pause(self, trouble: str) -> float:
        return (
            self._risks.chance.uniform(0.2, SLOWEST_SECONDS)
            if trouble == "slow"
            else self._risks.chance.uniform(0.0001, 0.004)
        )

    async def _write_line(self) -> None:
        """Group by group, each with the fate that it meets."""
        while self._line:
            trouble = self._risks.troubles.of(StoreTrouble)
            await asyncio.sleep(self._pause(trouble))
            group, self._line = self._line, []
            kind = "commit" if any(isinstance(item.value, TurnClaim) for item, _ in group) else "write"
            await self._risks.pass_by(f"before {kind}")
            verdicts: Sequence[Any] = [StoreUnavailable("the store refuses it")] * len(group)
            if trouble not in ("refused", "vanished"):
                verdicts = self._make_durable([item for item, _ in group])
                await self._risks.pass_by(f"after {kind}")
            if trouble in ("vanished", "silent"):
                verdicts = [StoreUncertain("the store does not say whether it has it")] * len(group)
            for (_, answer), verdict in zip(group, verdicts, strict=True):
                answer_with(answer, verdict)
        self._is_writing = False

    def _make_durable(self, items: Sequence[GroupedWork]) -> list[Any]:
        verdicts = self._disk.database.serve(items)
        self._tell()
        for item, verdict in zip(items, verdicts, strict=True):
            if verdict is None and isinstance(item.value, TurnClaim):
                self._disk.note(self._risks.process.name, item.value.commit, self._risks.process.loop)
        return verdicts


def _each(connection: Any, works: Sequence[Callable[[Any], Any]]) -> list[Any]:
    return [work(connection) for work in works]


def answer_with(answer: "asyncio.Future[Any]", verdict: object) -> None:
    """The answer that somebody awaits, an error among them; only the first counts."""
    if answer.done():
        return
    if isinstance(verdict, Exception):
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
