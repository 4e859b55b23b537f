"""Keeps the near future of one time line in memory, read from disk page by page."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.embedded.alarm_queue import BEFORE_ALL, AlarmQueue

WIDTH_MS = 20 * SECOND


class ReadDue(Protocol):
    """`due_wall` or `due_steady` of the store."""

    def __call__(self, before: int, limit: int, after: int = -1) -> Awaitable[list[tuple[int, str]]]:
        """Alarms later than `after` and up to `before`, earliest first. Raises StoreUnavailable."""


class DueWindow:
    """Raises the horizon of a queue before it reads, and lowers it where it could not read everything.

    An alarm that a turn commits during a read is either read, or put into the queue by that turn, because
    the horizon is above it already: none is lost in between. What was overdue at the start is read
    separately, so that it delays nothing punctual. `page` caps one read, `room` the whole queue.
    """

    def __init__(
        self, *, queue: AlarmQueue, read: ReadDue, is_ringing: Callable[[str], bool], page: int, room: int
    ) -> None:
        self._queue = queue
        self._read = read
        self._is_ringing = is_ringing
        self._page = self._limit = page
        self._room = room
        self._backlog: int | None = None
        self._backlog_from = BEFORE_ALL

    def begin(self, now: int) -> None:
        """Everything up to `now` is the backlog of an earlier process."""
        self._queue.horizon = now
        self._backlog = now

    def is_short(self, now: int) -> bool:
        """Whether there is something to read, and room for it."""
        if len(self._queue) + self._page > self._room:
            return False
        return self._backlog is not None or self._queue.horizon < now + WIDTH_MS // 2

    async def refill(self, now: int) -> None:
        """Reads what `is_short` found missing. Raises StoreUnavailable."""
        if self._queue.horizon < now + WIDTH_MS // 2:
            await self._raise(now + WIDTH_MS)
        if self._backlog is not None:
            await self._read_backlog(self._backlog)

    async def _raise(self, horizon: int) -> None:
        known = self._queue.horizon
        self._queue.horizon = horizon
        try:
            end = await self._read_page(horizon, known)
        except BaseException:
            self._queue.horizon = known
            raise
        if end is not None:
            self._queue.horizon = end

    async def _read_backlog(self, backlog: int) -> None:
        end = await self._read_page(backlog, self._backlog_from)
        if end is None:
            self._backlog = None
        else:
            self._backlog_from = end

    async def _read_page(self, before: int, after: int) -> int | None:
        """Reads one page; the moment up to which everything is known now, or None: up to `before`."""
        limit = self._limit
        rows = await self._read(before, limit, after=after)
        self._take(rows)
        self._limit = self._page
        if len(rows) < limit:
            return None
        end = max(rows[-1][0] - 1, after)  # more of the last moment may be left
        if end == after:
            self._limit = min(limit * 2, self._room)  # one moment fills a whole page
        return end

    def _take(self, rows: list[tuple[int, str]]) -> None:
        """Leaves jobs alone that are in memory: their turns are newer than what was read."""
        for moment, job_id in rows:
            if job_id not in self._queue and not self._is_ringing(job_id):
                self._queue.put(job_id, moment)
