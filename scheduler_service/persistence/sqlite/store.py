"""The store of the embedded host over one SQLite file, or over memory."""

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.common.group_thread import MAX_WAIT_FOR_OTHERS_SECONDS
from scheduler_service.persistence.job_store.database import JobDatabase, OnTrouble, WritePace
from scheduler_service.persistence.job_store.row_cache import KnownRows
from scheduler_service.persistence.job_store.state_store import (
    Owns,
    ServiceStart,
    SqlStateStore,
    begin_start,
    owns_all,
)
from scheduler_service.persistence.sql.database import OpenDatabase
from scheduler_service.persistence.sql.sqlite import SqliteDialect
from scheduler_service.persistence.sqlite.database import open_reading, open_writing, relax, translated
from scheduler_service.persistence.sqlite.files import Files, OnDamagedPage, open_files
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.ports.errors import StoreUncertain

IN_MEMORY = ":memory:"


class SqliteStateStore(SqlStateStore):
    """`SqlStateStore` over a folder, or over memory alone."""

    def __init__(
        self, *, database: JobDatabase, started: ServiceStart, owns: Owns, files: Files | None
    ) -> None:
        """Over the tables of `files`; None: over those in memory."""
        super().__init__(
            database=database,
            started=started,
            owns=owns,
            known=KnownRows(),
            before_close=None if files is None else partial(asyncio.to_thread, files.end_checkpoints),
            on_close=None if files is None else files.lock.release,
        )
        self.files = files

    @classmethod
    async def open(
        cls,
        *,
        folder: Path | None,
        durability: str = "full",
        node_id: str = "",
        size: int = 512,
        faults: FaultPoints | None = None,
        lock: FolderLock | None = None,
        owns: Owns = owns_all,
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
        loop = asyncio.get_running_loop()
        files = None
        if folder is not None:
            opening = partial(open_files, folder, durability=durability, lock=lock)
            files = await asyncio.to_thread(opening, on_damaged_page=on_damaged_page)
        try:
            opened, started = await asyncio.to_thread(_begin, files, durability, node_id, faults)
            with ExitStack() as undo:
                undo.callback(opened.close)
                database = JobDatabase(
                    opened,
                    loop=loop,
                    pace=WritePace(size, MAX_WAIT_FOR_OTHERS_SECONDS, readers=1),
                    on_written=_note_nothing if files is None else files.note,
                    on_trouble=on_trouble,
                )
                undo.pop_all()
        except BaseException:
            if files is not None:
                files.close()
            raise
        return cls(database=database, started=started, owns=owns, files=files)


def _note_nothing(size: int) -> None:
    """Memory has no log."""


def _begin(
    files: Files | None, durability: str, node_id: str, faults: FaultPoints | None
) -> tuple[OpenDatabase, ServiceStart]:
    """The database of `files`, and this start, which is durable."""
    place = IN_MEMORY if files is None else files.place
    with translated(place):
        writing = open_writing(IN_MEMORY, durability=durability) if files is None else files.writing
        dialect = SqliteDialect.over(
            writing,
            subject=place,
            syncs=durability == "full",
            open_reading=None if files is None else lambda: open_reading(place),
        )
        with OpenDatabase(dialect).writing() as connection:
            started = begin_start(connection, dialect, node_id)
        relax(writing, durability=durability)
        database = OpenDatabase(
            dialect,
            in_memory=files is None,
            faults=faults,
            commit_point=FaultPoint.COMMIT,
            unconfirmed=StoreUncertain,
            is_only_writer=True,
        )
    return database, started
