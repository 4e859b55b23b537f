"""Reads over a separate connection; loads that wait together are one command."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from scheduler_service.persistence.redis.connection import Part, ServerConnection
from scheduler_service.persistence.redis.encoding import PREFIX, read_job
from scheduler_service.persistence.redis.errors import CommandFailed, Unanswered, Unsent
from scheduler_service.persistence.redis.session import Session
from scheduler_service.ports.errors import StateUnreadable, StoreUnavailable, store_closed
from scheduler_service.ports.state import StoredJob

BATCH_SIZE = 256
PAGE_BYTES = 4 << 20
MARKED_AT_ONCE = 64
"""Rows that the server searches for marks in one command: meanwhile it does nothing else."""


class Range(msgspec.Struct, frozen=True):
    """A part of an index, in its order or backwards. The ends are those of ZRANGE BYLEX."""

    index: str
    first: bytes = b"-"
    last: bytes = b"+"
    is_back: bool = False


class Page(msgspec.Struct, frozen=True):
    """Rows of a range at one moment, with the last member; `is_full`: there may be more."""

    last: bytes
    rows: Sequence[bytes]
    is_full: bool


class Reader:
    """Reads what is written, never before the outcome of every group is known.

    Every method raises StoreUnavailable.
    """

    def __init__(self, *, connection: ServerConnection, session: Session, place: str) -> None:
        self._connection = connection
        self._session = session
        self._place = place
        self._wanted: dict[str, asyncio.Future[StoredJob | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._epoch = session.epoch

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, or None."""
        loop = asyncio.get_running_loop()
        future = self._wanted.get(job_id)
        if future is None:
            future = self._wanted[job_id] = loop.create_future()
            if len(self._wanted) == 1:
                self._start(self._load())
        return await asyncio.shield(future)

    async def command(self, name: str, key: str, *parts: Part) -> Any:
        """The answer to a command that only reads our key `key`."""
        return await self._ask(partial(self._connection.call, name, PREFIX + key.encode(), *parts))

    async def script(self, name: str, *arguments: Part) -> Any:
        """The answer of one of our scripts."""
        return await self._ask(partial(self._connection.run, name, *arguments))

    async def members(self, wanted: Range, limit: int) -> list[bytes]:
        """The members of a range in the index's order, at most `limit`."""
        ends = (wanted.first, wanted.last)
        found: list[bytes] = await self.command("ZRANGE", wanted.index, *ends, "BYLEX", "LIMIT", 0, limit)
        return found

    async def page(self, wanted: Range, limit: int, *, rows: str = "jobs", value: str = "0") -> Page:
        """The rows of a range, at most `limit`, from the hash `rows`; it ends early after `PAGE_BYTES`.

        `value`: how many bytes of a member come before the row's field; "text": a text does.
        """
        ends = (wanted.last, wanted.first) if wanted.is_back else (wanted.first, wanted.last)
        back = "1" if wanted.is_back else "0"
        bounds = (limit, value, rows, PAGE_BYTES)
        is_full, last, *found = await self.script("page", wanted.index, *ends, back, *bounds)
        return Page(last, [row for row in found if row is not None], bool(is_full))

    async def marked(self, fields: Sequence[bytes], marks: Sequence[bytes]) -> list[tuple[int, bool]]:
        """Of jobs: the bytes of the row, and whether one of `marks` is anywhere in the document."""
        found: list[tuple[int, bool]] = []
        for start in range(0, len(fields), MARKED_AT_ONCE):
            some = fields[start : start + MARKED_AT_ONCE]
            answers = await self.script("marked", "jobs", len(marks), *marks, *some)
            found += [(size, bool(is_marked)) for size, is_marked in answers]
        return found

    def leave(self) -> None:
        """Waits for the server no longer: what is read fails."""
        self._connection.leave()

    async def close(self) -> None:
        """Returns when all reads have their results."""
        self._is_closed = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    async def _load(self) -> None:
        while self._wanted:
            wanted = dict(list(self._wanted.items())[:BATCH_SIZE])
            for job_id in wanted:
                del self._wanted[job_id]
            while wanted:  # in several answers where they are large
                wanted = await self._load_some(wanted)

    async def _load_some(
        self, wanted: dict[str, asyncio.Future[StoredJob | None]]
    ) -> dict[str, asyncio.Future[StoredJob | None]]:
        """Loads the first of them; returns those that are left."""
        call = partial(self._connection.run, "rows", "jobs", PAGE_BYTES, *wanted)
        try:
            rows = await self._call_settled(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of each load
            for future in wanted.values():
                future.set_exception(self._unreadable(error))
                future.exception()  # the caller may be gone: this marks it as retrieved
            return {}
        for (job_id, future), row in zip(islice(wanted.items(), len(rows)), rows, strict=True):
            _settle(future, job_id, row)
        return dict(islice(wanted.items(), len(rows), None))

    async def _ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        # The caller may not run in a task (hosts.light_tasks), which the library's timeouts need.
        return await asyncio.shield(self._start(self._call_settled(call)))

    def _start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone: this marks it as retrieved

    async def _call_settled(self, call: Callable[[], Awaitable[Any]]) -> Any:
        if self._is_closed:
            raise store_closed("it is not read any more")
        await self._session.settle()
        if self._epoch != self._session.epoch:
            self._epoch = self._session.epoch
            await self._connection.close()
        try:
            try:
                return await call()
            except (Unanswered, Unsent):
                return await call()  # the server may have been restarted; a read may be repeated
        except CommandFailed as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreUnavailable:
        if isinstance(error, StoreUnavailable):
            return error
        return StoreUnavailable(f"The store {self._place} cannot be read: {error}.")


def _settle(future: asyncio.Future[StoredJob | None], job_id: str, row: bytes | None) -> None:
    """Gives a load its job; a damaged row is the trouble of this job alone."""
    try:
        future.set_result(None if row is None else read_job(job_id, row))
    except StateUnreadable as error:
        future.set_exception(error)
        future.exception()  # as above
