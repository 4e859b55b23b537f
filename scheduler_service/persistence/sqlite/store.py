"""The state store of the embedded host over one SQLite file."""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, Self

from scheduler_service.domain.effects import Delivery
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.sqlite.catalogue import SqliteCatalogue
from scheduler_service.persistence.sqlite.files import Files, Opening, open_memory, open_shard
from scheduler_service.persistence.sqlite.folder import LOCK_WAIT_SECONDS, FolderLock
from scheduler_service.persistence.sqlite.journal import Journal
from scheduler_service.persistence.sqlite.queues import SqliteQueues
from scheduler_service.persistence.sqlite.reader import Reader
from scheduler_service.persistence.sqlite.rows import read_batch, read_delivery, select
from scheduler_service.persistence.sqlite.writer import Writer
from scheduler_service.persistence.sqlite.writes import Fold, Forget, Keep, Settle, Written
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered, Settlement, StoredJob

_CLOCK_SKEW = "clock_skew"


class SqliteStateStore:
    """ports.StateStore over `state.db` in a folder (a shard of it: `state-K.db`), or over memory alone.

    `boot` counts the openings of the file from 1 and is durable before anything else is written; `node_id`
    is this node's name; `catalogue` answers lists, `queues` has the parts. Over a destroyed job a commit
    may expect 0 or the destruction's sequence.
    """

    def __init__(
        self, *, files: Files, size: int, faults: FaultPoints | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.boot = files.boot
        self.node_id = files.node_id
        self._files = files
        guard = files.guard
        self._journal = Journal()
        self._writer = Writer(
            connection=files.writing,
            journal=self._journal,
            place=files.place,
            guard=guard,
            size=size,
            faults=faults,
            written=files.note_write,
            loop=loop,
        )
        self._reader = Reader(
            connection=files.reading, name="state-reader", place=files.place, guard=guard, loop=loop
        )
        # Lists may search all jobs: they must not stand before the load of a turn.
        self._lister = Reader(
            connection=files.listing, name="state-lister", place=files.place, guard=guard, loop=loop
        )
        self.catalogue = SqliteCatalogue(
            reader=self._lister, catch_up=self._catch_up, find=self._journal.find
        )
        self.queues = SqliteQueues(put=self._writer.put, reader=self._reader)
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
        shard: int = 0,
        shards: int = 1,
        lock: FolderLock | None = None,
        lock_wait: float = LOCK_WAIT_SECONDS,
    ) -> Self:
        """Opens the store in `folder`, making it where it is missing; None keeps nothing (memory).

        `durability` "full" outlives a power loss, "process" the end of the process. `node_id` empty: the
        name kept from the last start, or a new one. `size` is the most writes of one group.

        `shard` 0 is `state.db` under the folder's lock, or under the `lock` on the folder that the caller
        has claimed: the store takes it over, a failure lets it go. The folder must be divided into `shards`.
        `shard` K is `state-K.db` under a lock of its own; a worker process of an earlier service that has it
        is waited for, `patience` seconds. Raises StoreRefused: StoreLocked, FolderUnusable, StoreDamaged,
        StoreTooNew.
        """
        if folder is None:
            files = await asyncio.to_thread(open_memory, durability, node_id)
        else:
            opening = Opening(folder, durability, node_id, shard, shards, lock, lock_wait)
            files = await asyncio.to_thread(open_shard, opening)
        return cls(files=files, size=size, faults=faults, loop=asyncio.get_running_loop())

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, destroyed ones too, or None. Raises StoreUnavailable."""
        if self._journal.is_in_doubt:
            await self._writer.put(Fold(count=0))
        return self._journal.find(job_id) or await self._reader.load(job_id)

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, also of a life that has ended, or None. Raises StoreUnavailable."""
        return await self._reader.definition(uid, revision)

    def commit(self, commit: Commit) -> Awaitable[None]:
        """Writes one turn; returns at once an awaitable that ends when it is durable. Raises StoreError."""
        return self._writer.put(commit, may_wait=commit.may_wait)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        """Writes the turns of many jobs in one group; for each None, or the error that is its own."""
        verdicts = await self._writer.put_all(commits)
        return [verdict if isinstance(verdict, StoreError) else None for verdict in verdicts]

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        """Writes what became of deliveries. Raises StoreError."""
        return self._writer.put(Settle(tuple(settlements)))

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """The answer kept under this Idempotency-Key since `since` (wall ms). Raises StoreUnavailable."""
        text = (
            "SELECT scope, key, digest, answer, created_at, job_id FROM remembered "
            "WHERE scope = ? AND key = ? AND created_at >= ?"
        )
        rows = await self._reader.read(
            lambda connection: connection.execute(text, (scope, key, since)).fetchall()
        )
        return Remembered(*rows[0]) if rows else None

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        """Keeps an answer that belongs to no single job, for 24 h. Raises StoreError."""
        return self._writer.put(remembered)

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """(moment, job_id) of alarms later than `after` and up to `before` on the wall line, earliest first.

        At most `limit`; equal moments in order of id. Raises StoreUnavailable.
        """
        return await self._due("due_wall", before, limit, after)

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """The same on the steady line."""
        return await self._due("due_steady", before, limit, after)

    async def open_jobs(self, after: str, limit: int) -> list[str]:
        """Ids, in order, of jobs with executions that are processing or wait for a retry (recovery)."""
        await self._catch_up()
        source = "jobs WHERE live > 0 AND job_id > ? ORDER BY job_id LIMIT ?"
        return [row[0] for row in await self._select("job_id", source, after, limit)]

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """Durable deliveries in order of id. Raises StoreUnavailable."""
        source = "deliveries WHERE delivery_id > ? ORDER BY delivery_id LIMIT ?"
        return [read_delivery(row[0]) for row in await self._select("hex(content)", source, after, limit)]

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        """Batches that the history has not confirmed, in order of (uid, sequence)."""
        await self._writer.put(Fold(is_whole=True))
        columns = "uid, job_id, tenant, sequence, at, hex(records)"
        source = "unwritten WHERE (uid, sequence) > (?, ?) ORDER BY uid, sequence LIMIT ?"
        return [read_batch(row) for row in await self._select(columns, source, *after, limit)]

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        """The history has these batches (uid, sequence): forget them. Raises StoreError."""
        return self._writer.put(Written(tuple(keys)))

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes a destroyed job, its counters and definitions; False: there is none. Raises StoreError."""
        return self._writer.put(Forget(job_id))

    async def clock_skew(self) -> int:
        """The steady clock's distance as it was saved last, in ms; 0: never."""
        text = "SELECT value FROM meta WHERE key = ?"
        rows = await self._reader.read(lambda connection: connection.execute(text, (_CLOCK_SKEW,)).fetchall())
        return int(rows[0][0]) if rows else 0

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        """Keeps `skew` (ms) for the next start; ends when it is durable. Raises StoreError."""
        return self._writer.put(Keep(_CLOCK_SKEW, skew))

    async def close(self) -> None:
        """Writes what was handed in, then lets go of the file and its lock. A second call does nothing."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _catch_up(self) -> None:
        """Returns when the tables have what was durable at the call. Raises StoreError."""
        newest = self._journal.newest
        while self._journal.holds(newest):
            await self._writer.put(Fold())

    async def _close(self) -> None:
        with contextlib.suppress(StoreError):  # the next start does it
            await self._writer.put(Fold(is_whole=True))
        await self._writer.close()
        await self._reader.close()
        await self._lister.close()
        await asyncio.to_thread(self._files.close)

    async def _due(self, line: str, before: int, limit: int, after: int) -> list[tuple[int, str]]:
        await self._catch_up()
        source = f"jobs WHERE {line} > ? AND {line} <= ? ORDER BY {line}, job_id LIMIT ?"
        rows = await self._select(f"{line}, job_id", source, after, before, limit)
        return [(row[0], row[1]) for row in rows]

    async def _select(self, columns: str, source: str, *parameters: Any) -> list[Any]:
        return await self._reader.read(lambda connection: select(connection, columns, source, parameters))
