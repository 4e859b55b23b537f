"""A job as a host holds it in memory between two turns."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.moments import Due, Now
from scheduler_service.engine.decision import Decision
from scheduler_service.engine.program import Program
from scheduler_service.engine.states import LIVE
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.state import Commit

NEVER = Due()


class PendingCommit(msgspec.Struct, frozen=True, gc=False):
    """A decided turn with its durable writes: what the job becomes once the store has them.

    `until`: where it was decided ahead of its moment, that moment. `due`: when it has to be looked at, where
    that is not what the store has.
    """

    commit: Commit
    decision: Decision
    programs: Mapping[int, Program]
    until: Now | None = None
    due: Due | None = None


class CachedJob:
    """A job in memory; only who holds the job's lock may touch it.

    `committed` is the sequence that lies in the store (0: no such job, or a destroyed one), `sequence` the
    last one that was used. `doubt` is a turn of which nobody knows whether the store wrote it. `cut_off`:
    the job was loaded with open calls, and has not been told yet which of them are still in flight.
    """

    __slots__ = (
        "committed",
        "cut_off",
        "document",
        "doubt",
        "due",
        "durable_due",
        "entry",
        "job_id",
        "loaded",
        "programs",
        "sequence",
    )

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.sequence = 0
        self.forget()

    def forget(self) -> None:
        """Drops the cached state; the store is asked before the next turn."""
        self.loaded = False
        self.cut_off = False
        self.document: Document | None = None
        self.programs: Mapping[int, Program] = {}
        self.committed = 0
        self.entry: CatalogueEntry | None = None
        self.due = NEVER
        self.durable_due = NEVER
        self.doubt: PendingCommit | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a turn may be taken on what is held."""
        return self.loaded and self.doubt is None and not self.cut_off

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held but what the store would say: no job, or nothing loaded."""
        return self.document is None and self.doubt is None

    @property
    def is_live(self) -> bool:
        """Whether executions run, so that memory may know more of the job than the store."""
        return self.doubt is not None or (self.document is not None and bool(self.document.contexts))


def has_open_executions(document: Document | None) -> bool:
    """Whether a document just loaded has executions that were running when it was written."""
    return document is not None and any(run.state in LIVE for run in document.head.opens)


EVICTION_TRIES = 4


class LockedJob:
    """A held job with its lock. Who waits gets the lock in the order of asking.

    `is_busy`: somebody has the lock; only the actor itself changes it.
    """

    __slots__ = ("_waiting", "cached", "is_busy")

    def __init__(self, job_id: str) -> None:
        self.cached = CachedJob(job_id)
        self.is_busy = False
        self._waiting: deque[asyncio.Future[None]] | None = None  # most jobs never have any

    async def acquire(self) -> None:
        """Returns with the lock. Cancelled, it leaves the line, and passes on a lock it was just given."""
        if not self.is_busy:
            self.is_busy = True
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()
            raise

    def seize(self) -> None:
        """Takes the lock, which must be free: `acquire` without its coroutine."""
        self.is_busy = True

    def release(self) -> None:
        """Hands the lock to the next in line, who then has it: nobody can come between."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.is_busy = False


class JobCache:
    """At most about `most` jobs; only those that nobody uses and that know no more than the store go."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._jobs: OrderedDict[str, LockedJob] = OrderedDict()
        self._live: set[str] = set()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def live(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return len(self._live)

    def is_live(self, job_id: str) -> bool:
        """Whether this job is one of them."""
        return job_id in self._live

    def find(self, job_id: str) -> LockedJob | None:
        """The job if it is in memory."""
        return self._jobs.get(job_id)

    def enter(self, job_id: str) -> LockedJob:
        """The job's actor; a new one knows nothing yet."""
        locked = self._jobs.get(job_id)
        if locked is None:
            locked = self._jobs[job_id] = LockedJob(job_id)
        else:
            self._jobs.move_to_end(job_id)
        return locked

    def seize(self, job_id: str) -> LockedJob | None:
        """A new actor with its lock taken; None: the job is in memory, and may be in use."""
        if job_id in self._jobs:
            return None
        locked = self._jobs[job_id] = LockedJob(job_id)
        locked.seize()
        return locked

    def leave(self, locked: LockedJob) -> None:
        """A turn has ended: the lock goes to the next, and what is not needed any more goes."""
        cached = locked.cached
        job_id = cached.job_id
        if cached.is_live:
            self._live.add(job_id)
        else:
            self._live.discard(job_id)
        locked.release()
        if cached.document is None and not locked.is_busy and cached.is_empty:
            self._jobs.pop(job_id, None)
        elif len(self._jobs) > self._most:
            self._evict()

    def _evict(self) -> None:
        """Looks at a few of the longest unused; those that must stay go to the end of the line."""
        for _ in range(EVICTION_TRIES):
            job_id, locked = next(iter(self._jobs.items()))
            if locked.is_busy or locked.cached.is_live:
                self._jobs.move_to_end(job_id)
            else:
                del self._jobs[job_id]
                if len(self._jobs) <= self._most:
                    return
