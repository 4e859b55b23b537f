"""The state store of the embedded host over one SQLite file."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import Delivery
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.common.packing import read_deliveries
from scheduler_service.persistence.queues.sql_queues import SqlQueues
from scheduler_service.persistence.sql.job_catalogue import JobCatalogue
from scheduler_service.persistence.sql.kept_answers import recall, remember_first
from scheduler_service.persistence.sqlite.commit_group import (
    ConfirmedBatches,
    Forget,
    Keep,
    Settle,
    WriterStep,
)
from scheduler_service.persistence.sqlite.files import Files, open_files, open_memory
from scheduler_service.persistence.sqlite.folder import FolderLock
from scheduler_service.persistence.sqlite.journal import OnDamagedPage
from scheduler_service.persistence.sqlite.reader import Reader
from scheduler_service.persistence.sqlite.rows import read_batch, select, select_page
from scheduler_service.persistence.sqlite.writer import OnTrouble, Writer
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, OpenJob, Remembered, Settlement, StoredJob
from scheduler_service.telemetry.metrics.samples import Sample

CLOCK_SKEW = "clock_skew"
_DROP_CONFIRMED = ConfirmedBatches((), at_once=True)

Found = TypeVar("Found")
Owns = Callable[[str], bool]
"""Whether a job belongs to this process."""


def _owns_all(_: str) -> bool:
    return True


class SqliteStateStore:
    """`ports.state.OpenStore`, which documents the methods, over a folder or over memory alone.

    Several processes may have a folder open, each with the jobs that it `owns`: it alone commits their turns
    and forgets them. What a start asks for (alarms, open jobs, deliveries, records) are those of its own
    jobs; all else is the same in all processes, and written by any of them. `boot` counts the openings of
    the file. Over a destroyed job a commit may expect 0 or the destruction's sequence.
    """

    def __init__(
        self,
        *,
        files: Files,
        size: int,
        faults: FaultPoints | None,
        loop: asyncio.AbstractEventLoop,
        on_trouble: OnTrouble | None = None,
        owns: Owns = _owns_all,
    ) -> None:
        self._owns = owns
        self.boot = files.boot
        self.node_id = files.node_id
        self.files = files
        self.writer = Writer(files=files, size=size, faults=faults, loop=loop, on_trouble=on_trouble)
        self._reader = Reader(files=files, connection=files.reading, name="state-reader", loop=loop)
        # Lists may search all jobs: the load of a turn must not wait for one.
        self._lister = Reader(files=files, connection=files.listing, name="state-lister", loop=loop)
        self.catalogue = JobCatalogue(dialect=self.writer.dialect, read=self._lister.select)
        self.queues = SqlQueues(dialect=self.writer.dialect, write=self._run, read=self._reader.select)
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        *,
        folder: Path | None,
        durability: str = "full",
        node_id: str = "",
        size: int = 1000,
        faults: FaultPoints | None = None,
        lock: FolderLock | None = None,
        owns: Owns = _owns_all,
        on_damaged_page: OnDamagedPage | None = None,
        on_trouble: OnTrouble | None = None,
    ) -> Self:
        """Opens the store in `folder`, making it where it is missing; None: memory, which keeps nothing.

        `durability` "full" survives a power loss, "process" the end of the process. `node_id` empty: the name
        kept from the last start, or a new one. `size` is the most writes of one group. `lock`: the folder's,
        or that of a worker process, which the store releases, also when it does not open; None: the folder's
        is claimed.

        Of a page of the `journal` that cannot be read `on_damaged_page` is told, and the store opens with the
        rest; None: it is refused.
        `on_trouble` is told when nothing can be written, and when it can again.

        Raises StoreRefused: StoreLocked, FolderUnusable, StoreDamaged, StoreTooNew.
        """
        if folder is None:
            files = await asyncio.to_thread(open_memory, durability, node_id)
        else:
            files = await asyncio.to_thread(
                open_files,
                folder,
                durability=durability,
                node_id=node_id,
                lock=lock,
                on_damaged_page=on_damaged_page,
            )
        loop = asyncio.get_running_loop()
        return cls(files=files, size=size, faults=faults, loop=loop, on_trouble=on_trouble, owns=owns)

    @property
    def commits_waiting(self) -> int:
        return self.writer.waiting

    def samples(self, *, is_away: bool = False) -> Iterable[Sample]:
        """Figures of the writer's groups."""
        return self.writer.groups.samples(is_away=is_away)

    def commit(self, commit: Commit) -> Awaitable[None]:
        return self.writer.put(commit, may_wait=commit.may_wait)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        verdicts = await self.writer.put_all(commits)
        return [verdict if isinstance(verdict, StoreError) else None for verdict in verdicts]

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        return self.writer.put(Settle(tuple(settlements)))

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        return self.writer.put(remembered)

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        return self.writer.put(ConfirmedBatches(tuple(keys)))

    def forget(self, job_id: str) -> Awaitable[bool]:
        return self.writer.put(Forget(job_id))

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        return self.writer.put(Keep(CLOCK_SKEW, skew))

    async def load(self, job_id: str) -> StoredJob | None:
        return await self._reader.load(job_id)

    async def definition(self, uid: str, revision: int) -> bytes | None:
        return await self._reader.definition(uid, revision)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        return await self._reader.select(partial(recall, scope=scope, key=key, since=since))

    def remember_first(self, remembered: Remembered, since: int) -> Awaitable[bool]:
        return self._run(partial(remember_first, dialect=self.writer.dialect, kept=remembered, since=since))

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due("due_wall", before, limit, after)

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due("due_steady", before, limit, after)

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        own: list[str] = []
        is_last = False
        while len(own) < limit and not is_last:
            page = await self._select(
                "job_id", "jobs WHERE live > 0 AND job_id > ? ORDER BY job_id LIMIT ?", after, limit
            )
            own += [job_id for (job_id,) in page if self._owns(job_id)]
            is_last = len(page) < limit
            after = page[-1][0] if page else after
        is_marked = " + ".join(["ifnull(instr(document, ?), 0)"] * len(marks)) or "0"
        source = "jobs WHERE job_id IN (SELECT value FROM json_each(?)) ORDER BY job_id"
        asked = msgspec.json.encode(own[:limit]).decode()
        rows = await self._select(f"job_id, {is_marked}, length(document)", source, *marks, asked)
        return [OpenJob(row[0], row[1] > 0, row[2]) for row in rows]

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        while page := await self._read_deliveries(after, limit):
            own = [one for one in page if self._owns(one.job_id)]
            if own or limit == 1:  # whoever asks for one wants that one
                return own
            after = page[-1].delivery_id
        return []

    async def _read_deliveries(self, after: str, limit: int) -> list[Delivery]:
        source = "deliveries WHERE delivery_id > CAST(? AS TEXT) ORDER BY delivery_id LIMIT ?"
        place = after.encode(errors="surrogateescape")
        if limit == 1:  # in hexadecimal digits one with a large body takes ten times as much for a moment
            text = f"SELECT CAST(delivery_id AS BLOB), content FROM {source}"  # noqa: S608
            return read_deliveries(
                await self._reader.read(lambda connection: connection.execute(text, (place, 1)).fetchall())
            )
        columns = "hex(delivery_id), hex(content)"
        rows = await self._page(columns, "content", source, place, limit)
        return read_deliveries((bytes.fromhex(name), bytes.fromhex(content)) for name, content in rows)

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        await self.writer.put(_DROP_CONFIRMED)
        columns = "uid, job_id, tenant, sequence, at, hex(records)"
        source = "unwritten WHERE (uid, sequence) > (?, ?) ORDER BY uid, sequence LIMIT ?"
        while page := [
            read_batch(row) for row in await self._page(columns, "records", source, *after, limit)
        ]:
            if own := [one for one in page if self._owns(one.job_id)]:
                return own
            after = (page[-1].uid, page[-1].sequence)
        return []

    async def clock_skew(self) -> int:
        text = "SELECT value FROM meta WHERE key = ?"
        rows = await self._reader.read(lambda connection: connection.execute(text, (CLOCK_SKEW,)).fetchall())
        return int(rows[0][0]) if rows else 0

    async def close(self) -> None:
        """Writes what was put in, then releases the file and its lock. A second call waits with the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        with contextlib.suppress(StoreError):  # the next start does it
            await self.writer.put(_DROP_CONFIRMED)
        await self.writer.close()
        await self._reader.close()
        await self._lister.close()
        await asyncio.to_thread(self.files.close)

    def _run(self, work: Callable[[sa.Connection], Found]) -> Awaitable[Found]:
        """Runs `work` in the writer's transaction, together with what else waits."""
        return self.writer.put(WriterStep(work))

    async def _due(self, column: str, before: int, limit: int, after: int) -> list[tuple[int, str]]:
        source = f"jobs WHERE {column} <= ? AND ({column}, job_id) > (?, ?) ORDER BY {column}, job_id LIMIT ?"
        found: list[tuple[int, str]] = []
        place = (after + 1, "")
        is_last = False
        while len(found) < limit and not is_last:
            page = await self._select(f"{column}, job_id", source, before, *place, limit)
            found += [(moment, job_id) for moment, job_id in page if self._owns(job_id)]
            is_last = len(page) < limit
            place = (page[-1][0], page[-1][1]) if page else place
        return found[:limit]

    async def _select(self, columns: str, source: str, *parameters: Any) -> list[Any]:
        return await self._reader.read(lambda connection: select(connection, columns, source, parameters))

    async def _page(self, columns: str, blob: str, source: str, *parameters: Any) -> list[Any]:
        return await self._reader.read(
            lambda connection: select_page(connection, columns, blob, source, parameters)
        )
