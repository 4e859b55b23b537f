"""Reads in a separate thread, over a separate connection; loads that wait together are one query."""

import asyncio
import sqlite3
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, TypeVar, cast

import sqlalchemy as sa

from scheduler_service.persistence.common.group_thread import GroupThread, Verdict
from scheduler_service.persistence.sql.sqlite import SqliteDialect, driver_error
from scheduler_service.persistence.sqlite.files import Files
from scheduler_service.persistence.sqlite.rows import LoadedRow, read_jobs
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.state import StoredJob

Found = TypeVar("Found")

Read = Callable[[sqlite3.Connection], Any]

MAX_GROUP = 256
MAX_PREFETCHED = 256
"""Definitions that were loaded with their jobs and not asked for yet."""


class Later(Enum):
    """Of a load: it is to be put in again, behind those that wait, as it is large and others were."""

    AGAIN = auto()


LATER = Later.AGAIN


class Reader:
    """Reads the last committed state; never waits for the writer of a file."""

    def __init__(
        self, *, files: Files, connection: sqlite3.Connection, name: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._connection = connection
        self._statements = SqliteDialect.over(connection, subject=files.place).engine.connect()
        self._place = files.place
        self._guard = files.guard
        self._definitions: dict[tuple[str, int], bytes] = {}
        self._thread: GroupThread[str | Read] = GroupThread(
            name=name, serve=self._serve, size=MAX_GROUP, loop=loop
        )

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, or None. Raises StoreUnavailable.

        Its current definition, which the caller needs next, is loaded with it; see `definition`.
        """
        loaded: LoadedRow | Later | None = LATER
        while loaded is LATER:
            loaded = cast("LoadedRow | Later | None", await self._thread.put(job_id))
        if loaded is None:
            return None
        if loaded.definition is not None:
            entry = loaded.job.entry
            self._definitions[entry.uid, entry.revision] = loaded.definition
            if len(self._definitions) > MAX_PREFETCHED:
                del self._definitions[next(iter(self._definitions))]
        return loaded.job

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None; at first the one loaded with its job. Raises StoreUnavailable."""
        known = self._definitions.pop((uid, revision), None)
        if known is not None:
            return known
        text = "SELECT text FROM definitions WHERE uid = ? AND revision = ?"
        rows = await self.read(lambda connection: connection.execute(text, (uid, revision)).fetchall())
        return rows[0][0] if rows else None

    async def read(self, call: Callable[[sqlite3.Connection], Found]) -> Found:
        """What `call` reads from the connection. Raises StoreUnavailable."""
        return cast("Found", await self._thread.put(call))

    async def select(self, call: Callable[[sa.Connection], Found]) -> Found:
        """The same for a call with statements of SQLAlchemy."""
        return await self.read(lambda _: call(self._statements))

    async def close(self) -> None:
        """Returns when all reads have their results."""
        await self._thread.close()
        self._statements.close()

    def _serve(self, items: list[str | Read]) -> list[Verdict]:
        with self._guard:
            job_ids = [item for item in items if isinstance(item, str)]
            jobs = self._try(lambda connection: _read_jobs(connection, job_ids)) if job_ids else {}
            return [self._answer(item, jobs) for item in items]

    def _answer(self, item: str | Read, jobs: Verdict) -> Verdict:
        if not isinstance(item, str):
            return self._try(item)
        return jobs.get(item) if isinstance(jobs, dict) else jobs

    def _try(self, call: Read) -> Verdict:
        try:
            return call(self._connection)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of each read
            return StoreUnavailable(f"The store {self._place} cannot be read: {driver_error(error)}.")


def _read_jobs(connection: sqlite3.Connection, job_ids: list[str]) -> dict[str, LoadedRow | Later]:
    found, later = read_jobs(connection, job_ids)
    return {**found, **dict.fromkeys(later, LATER)}
