"""The near alarms of one time line in memory, the window by which they are read, and what is due."""

import heapq
from collections.abc import Awaitable, Callable, Container

from scheduler_service.domain.moments import SECOND
from scheduler_service.pacing.fair_line import FairLine

BEFORE_ALL = -1
WIDTH_MS = 20 * SECOND


class AlarmQueue:
    """Moments by job, earliest first. Up to `horizon` every alarm on disk is here too, or is ringing now.

    A moment that moves to later costs nothing until the earlier one is reached: the heap holds one live
    place per job.
    """

    __slots__ = ("_heap", "_places", "_targets", "horizon")

    def __init__(self) -> None:
        self.horizon = BEFORE_ALL
        self._heap: list[tuple[int, str]] = []
        self._targets: dict[str, int] = {}
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._targets)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._targets

    def target(self, job_id: str) -> int | None:
        """When the job rings, or None."""
        return self._targets.get(job_id)

    def put(self, job_id: str, moment: int) -> None:
        """The job rings at `moment`, and at no other."""
        self._targets[job_id] = moment
        place = self._places.get(job_id)
        if place is None or moment < place:
            self._push(job_id, moment)

    def drop(self, job_id: str) -> None:
        """The job does not ring."""
        self._targets.pop(job_id, None)

    def next(self) -> int | None:
        """The earliest moment at which `pop` may have something; never too late."""
        return self._heap[0][0] if self._heap else None

    def between(self, now: int, end: int, most: int) -> list[tuple[int, str]]:
        """Alarms later than `now` and up to `end`, in order; of more than `most` any. Looks at few others."""
        found: list[tuple[int, str]] = []
        heap, size = self._heap, len(self._heap)
        places = [0] if size and heap[0][0] <= end else []
        while places and len(found) < most:
            place = places.pop()
            moment, job_id = heap[place]
            target = self._targets.get(job_id)
            if target is not None and now < target <= end and self._places.get(job_id) == moment:
                found.append((target, job_id))
            below = 2 * place + 1
            if below < size and heap[below][0] <= end:  # a heap: nothing below one that is later is earlier
                places.append(below)
            below += 1
            if below < size and heap[below][0] <= end:
                places.append(below)
        return sorted(found)

    def pop(self, now: int) -> tuple[int, str] | None:
        """The earliest alarm up to `now`, taken out; None when none is due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            moment, job_id = heapq.heappop(heap)
            if self._places.get(job_id) != moment:
                continue
            del self._places[job_id]
            target = self._targets.get(job_id)
            if target is None:
                continue
            if target <= now:
                del self._targets[job_id]
                return target, job_id
            self._push(job_id, target)
        return None

    def _push(self, job_id: str, moment: int) -> None:
        self._places[job_id] = moment
        heapq.heappush(self._heap, (moment, job_id))


ReadDue = Callable[[int, int, int], Awaitable[list[tuple[int, str]]]]
"""`due_wall` or `due_steady` of the store: alarms up to a moment, so many, later than a moment."""


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
        rows = await self._read(before, limit, after)
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


class DueJobs:
    """Jobs that ring: `overdue` and `punctual`, these with the wall moment where the ring comes ahead of it.

    Of both, tenants take turns: thousands of one delay those of another by one each.
    """

    def __init__(self) -> None:
        self.overdue: FairLine[str, int | None] = FairLine()
        self.punctual: FairLine[str, int | None] = FairLine()
        self._late_turn = False

    def __len__(self) -> int:
        return self.overdue.size + self.punctual.size

    def pick_beside(self, crowds: Container[str]) -> tuple[str, int | None] | None:
        """The next one of a tenant that is none of `crowds`."""
        return self.punctual.pop_beside(crowds) or self.overdue.pop_beside(crowds)

    def pick(self) -> tuple[str, int | None] | None:
        """The next one: a backlog does not delay punctual jobs, nor the other way round."""
        self._late_turn = not self._late_turn
        overdue, punctual = self.overdue, self.punctual
        if overdue.size and (self._late_turn or not punctual.size):
            return overdue.pop()
        return punctual.pop() if punctual.size else None


BURST, UNEVEN = 256, 8
"""So many jobs of one tenant, that many times those of another one, are a burst beside it."""
COMPARE_MS, COUNT_MS, LONGEST_COUNT_MS = 50, SECOND, 6 * SECOND


class Neighbours:
    """Whether a burst of one tenant delays another one. Of tenants with as much each none does.

    Counts jobs of about a second; while many wait, of six at most. All times are steady ms.
    """

    def __init__(self) -> None:
        self.counts: dict[
            str, int
        ] = {}  # by tenant; written without a call, as each job that rings is counted
        self.crowds: frozenset[str] = frozenset()
        """Tenants that have about as much as the one with the most, while `is_burst`."""
        self._compared = self._compare_at = self._count_until = self._burst_until = 0

    def is_burst(self, now: int, waiting: int) -> bool:
        """Whether there is one, or what it began may still be under way; so many jobs are `waiting`."""
        counts = self.counts
        if now >= self._compare_at or len(counts) != self._compared:
            self._compare_at, self._compared = now + COMPARE_MS, len(counts)
            if len(counts) > 1 and (most := max(counts.values())) > BURST:
                self._burst_until = now + SECOND if min(counts.values()) * UNEVEN < most else now
                self.crowds = frozenset(one for one, count in counts.items() if count * UNEVEN >= most)
            longest = self._count_until + LONGEST_COUNT_MS - COUNT_MS
            if now >= (self._count_until if waiting <= BURST else longest):
                self._count_until = now + COUNT_MS
                counts.clear()
        return now < self._burst_until
