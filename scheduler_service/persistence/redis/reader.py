"""Reads over connections of their own; loads that wait together are one command."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from scheduler_service.persistence.redis.errors import CommandFailed, Unanswered
from scheduler_service.persistence.redis.keys import PREFIX
from scheduler_service.persistence.redis.rows import read_job
from scheduler_service.persistence.redis.scripting import run_script
from scheduler_service.persistence.redis.session import Session
from scheduler_service.persistence.redis.wire import Part, Wire
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.state import StoredJob

AT_ONCE = 256
_JOBS = PREFIX + b"jobs"
_CLOSED = "The store is closed: it is not read any more."


class Range(msgspec.Struct, frozen=True):
    """A part of an index, in its order or back. The ends are as ZRANGE BYLEX has them."""

    index: str
    first: bytes = b"-"
    last: bytes = b"+"
    is_back: bool = False


class Page(msgspec.Struct, frozen=True):
    """What a range holds at one moment: the last member, the rows; `is_full`: there may be more."""

    last: bytes
    rows: Sequence[bytes]
    is_full: bool


class Reader:
    """Answers from what is written; never before the fate of every group is known.

    Everything raises StoreUnavailable.
    """

    def __init__(self, *, wire: Wire, session: Session, place: str) -> None:
        self._wire = wire
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
                self._begin(self._load())
        return await asyncio.shield(future)

    async def command(self, name: str, key: str, *parts: Part) -> Any:
        """What a command that only reads says of our key `key`."""
        return await self._ask(partial(self._wire.call, name, PREFIX + key.encode(), *parts))

    async def script(self, name: str, *arguments: Part) -> Any:
        """What one of our scripts answers."""
        return await self._ask(partial(run_script, self._wire, name, *arguments))

    async def members(self, wanted: Range, limit: int) -> list[bytes]:
        """The members of a range, at most `limit`."""
        ends = (wanted.last, wanted.first) if wanted.is_back else (wanted.first, wanted.last)
        way = ("REV",) if wanted.is_back else ()
        found: list[bytes] = await self.command(
            "ZRANGE", wanted.index, *ends, "BYLEX", *way, "LIMIT", 0, limit
        )
        return found

    async def page(self, wanted: Range, limit: int, *, rows: str = "jobs", value: str = "0") -> Page:
        """The rows of a range, at most `limit`, from the hash `rows`.

        `value`: how many bytes of a member come before the row's field; "text": a text does.
        """
        ends = (wanted.last, wanted.first) if wanted.is_back else (wanted.first, wanted.last)
        back = "1" if wanted.is_back else "0"
        count, last, *found = await self.script("page", wanted.index, *ends, back, limit, value, rows)
        return Page(last, [row for row in found if row is not None], count == limit)

    async def close(self) -> None:
        """Returns when all that was asked is answered."""
        self._is_closed = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._wire.close()

    async def _load(self) -> None:
        while self._wanted:
            wanted = dict(list(self._wanted.items())[:AT_ONCE])
            for job_id in wanted:
                del self._wanted[job_id]
            try:
                rows = await self._settled(partial(self._wire.call, "HMGET", _JOBS, *wanted))
                jobs = [None if row is None else read_job(row) for row in rows]
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must be told
                for future in wanted.values():
                    future.set_exception(self._unreadable(error))
                    future.exception()  # who asked may be gone
            else:
                for future, job in zip(wanted.values(), jobs, strict=True):
                    future.set_result(job)

    async def _ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        # Who asks may be no task (hosts.errands), and the library's timeouts want one.
        return await asyncio.shield(self._begin(self._settled(call)))

    def _begin(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _settled(self, call: Callable[[], Awaitable[Any]]) -> Any:
        if self._is_closed:
            raise StoreUnavailable(_CLOSED)
        await self._session.settle()
        if self._epoch != self._session.epoch:
            self._epoch = self._session.epoch
            await self._wire.close()
        try:
            try:
                return await call()
            except Unanswered:
                return await call()  # the server may have been started anew; a read may be repeated
        except CommandFailed as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreUnavailable:
        if isinstance(error, StoreUnavailable):
            return error
        return StoreUnavailable(f"The store {self._place} cannot be read: {error}.")
