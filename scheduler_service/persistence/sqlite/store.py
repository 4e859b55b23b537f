"""The state store of the embedded host over one SQLite file."""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from scheduler_service.domain.effects import Delivery
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.common.writes import CLOCK_SKEW, StoreWrites, Written, read_deliveries
from scheduler_service.persistence.sqlite.catalogue import SqliteCatalogue
from scheduler_service.persistence.sqlite.commit_group import Step
from scheduler_service.persistence.sqlite.files import Files, open_memory, open_shard
from scheduler_service.persistence.sqlite.folder import LOCK_WAIT_SECONDS, FolderLock
from scheduler_service.persistence.sqlite.journal import OnDamagedPage
from scheduler_service.persistence.sqlite.kept_answers import add_first
from scheduler_service.persistence.sqlite.queues import SqliteQueues
from scheduler_service.persistence.sqlite.reader import Reader
from scheduler_service.persistence.sqlite.rows import read_batch, select, select_page
from scheduler_service.persistence.sqlite.writer import OnTrouble, Writer
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import OpenJob, Remembered, StoredJob

_DROP_CONFIRMED = Written((), at_once=True)


class SqliteStateStore(StoreWrites[Writer]):
    """`ports.state.OpenStore`, which documents the methods, over a folder or over memory alone.

    The folder has `state.db`, or one shard of it (`state-K.db`). `boot` counts the openings of that file.
    Over a destroyed job a commit may expect 0 or the destruction's sequence.
    """

    def __init__(
        self,
        *,
        files: Files,
        size: int,
        faults: FaultPoints | None,
        loop: asyncio.AbstractEventLoop,
        on_trouble: OnTrouble | None = None,
    ) -> None:
        self.boot = files.boot
        self.node_id = files.node_id
        self.files = files
        super().__init__(
            Writer(
                files=files,
                size=size,
                faults=faults,
                loop=loop,
                on_trouble=on_trouble,
            )
        )
        self._reader = Reader(files=files, connection=files.reading, name="state-reader", loop=loop)
        # Lists may search all jobs: the load of a turn must not wait for one.
        self._lister = Reader(files=files, connection=files.listing, name="state-lister", loop=loop)
        self.catalogue = SqliteCatalogue(reader=self._lister)
        self.queues = SqliteQueues(put=self.writer.put, reader=self._reader)
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
        on_damaged_page: OnDamagedPage | None = None,
        on_trouble: OnTrouble | None = None,
    ) -> Self:
        """Opens the store in `folder`, making it where it is missing; None: memory, which keeps nothing.

        `durability` "full" survives a power loss, "process" the end of the process. `node_id` empty: the name
        kept from the last start, or a new one. `size` is the most writes of one group.

        `shard` 0 is `state.db` under the folder's lock: `lock`, if the caller has it (the store releases it,
        also when it does not open), else a new one. The folder must be divided into `shards`. `shard` K is
        `state-K.db` under a lock of its own; if a worker process of an earlier service has it, this waits up
        to `lock_wait` seconds.

        Of a page of the `journal` that cannot be read `on_damaged_page` is told, and the store opens with the
        rest; None: it is refused.
        `on_trouble` is told when nothing can be written, and when it can again.

        Raises StoreRefused: StoreLocked, FolderUnusable, StoreDamaged, StoreTooNew.
        """
        if folder is None:
            files = await asyncio.to_thread(open_memory, durability, node_id)
        else:
            files = await asyncio.to_thread(
                open_shard, folder, durability=durability, node_id=node_id, shard=shard, shards=shards,
                lock=lock, lock_wait=lock_wait, on_damaged_page=on_damaged_page,
            )  # fmt: skip
        loop = asyncio.get_running_loop()
        return cls(files=files, size=size, faults=faults, loop=loop, on_trouble=on_trouble)

    async def load(self, job_id: str) -> StoredJob | None:
        return await self._reader.load(job_id)

    async def definition(self, uid: str, revision: int) -> bytes | None:
        return await self._reader.definition(uid, revision)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        text = (
            "SELECT scope, key, digest, answer, created_at, job_id FROM remembered "
            "WHERE scope = ? AND key = ? AND created_at >= ?"
        )
        row = await self._reader.read(
            lambda connection: connection.execute(text, (scope, key, since)).fetchone()
        )
        return None if row is None else Remembered(*row)

    def remember_first(self, remembered: Remembered, since: int) -> Awaitable[bool]:
        return self.writer.put(Step(partial(add_first, kept=remembered, since=since)))

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due("due_wall", before, limit, after)

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due("due_steady", before, limit, after)

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        is_marked = " + ".join(["ifnull(instr(document, ?), 0)"] * len(marks)) or "0"
        source = "jobs WHERE live > 0 AND job_id > ? ORDER BY job_id LIMIT ?"
        rows = await self._select(f"job_id, {is_marked}, length(document)", source, *marks, after, limit)
        return [OpenJob(row[0], row[1] > 0, row[2]) for row in rows]

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
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
        return [read_batch(row) for row in await self._page(columns, "records", source, *after, limit)]

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

    async def _due(self, column: str, before: int, limit: int, after: int) -> list[tuple[int, str]]:
        source = f"jobs WHERE {column} > ? AND {column} <= ? ORDER BY {column}, job_id LIMIT ?"
        rows = await self._select(f"{column}, job_id", source, after, before, limit)
        return [(row[0], row[1]) for row in rows]

    async def _select(self, columns: str, source: str, *parameters: Any) -> list[Any]:
        return await self._reader.read(lambda connection: select(connection, columns, source, parameters))

    async def _page(self, columns: str, blob: str, source: str, *parameters: Any) -> list[Any]:
        return await self._reader.read(
            lambda connection: select_page(connection, columns, blob, source, parameters)
        )
