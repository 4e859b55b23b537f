"""The jobs in memory: their state between two turns, their locks, and how much their executions keep."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping

import msgspec

from scheduler_service.domain.document import Calling, Context, Document, PartsOpen, PartsQueued
from scheduler_service.domain.execution import LIVE
from scheduler_service.domain.moments import Due, Now
from scheduler_service.engine.decision import Decision
from scheduler_service.engine.program import USUAL_BYTES, Program
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.state import Commit, StoredJob

NEVER = Due()


class PendingCommit(msgspec.Struct, frozen=True, gc=False):
    """A decided turn with its durable writes: what the job becomes once the store has them.

    `until`: the moment of a turn that was decided ahead of it. `due`: the job's due time, where it differs
    from the one in the store. `weight`: that of its definition, where it is known.
    """

    commit: Commit
    decision: Decision
    programs: Mapping[int, Program]
    until: Now | None = None
    due: Due | None = None
    weight: int | None = None


class LoadedJob(msgspec.Struct, frozen=True, gc=False):
    """What the store had of a job just now, and its document, decoded."""

    stored: StoredJob | None
    document: Document | None


class CachedJob:
    """A job in memory; only the holder of the job's lock may change it, or read more than its document.

    `committed` is the sequence in the store (0: no such job, or a destroyed one), `sequence` the last one
    that was used. `doubt` is a turn whose commit may or may not have been written. `is_committing`: that turn
    is under way, and nobody has been told of it. `cut_off`: the job was loaded with open calls, and
    `Resumed`, which says which of them are still in flight, is still to come.

    About how many bytes it takes in memory: `program_bytes` its programs, `state_bytes` what the store has of
    its state, most of which are the parameters and responses of its open executions. `open_bytes` is what
    `OpenBytes` has counted of these; `keeps_much`: contexts in memory alone may have large responses.
    """

    __slots__ = (
        "committed",
        "cut_off",
        "document",
        "doubt",
        "due",
        "durable_due",
        "entry",
        "is_committing",
        "job_id",
        "keeps_much",
        "loaded",
        "open_bytes",
        "program_bytes",
        "programs",
        "sequence",
        "state_bytes",
    )

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.sequence = 0
        self.is_committing = False
        self.open_bytes = 0
        self.keeps_much = False
        self.forget()

    def forget(self) -> None:
        """Drops the cached state; the store is asked before the next turn."""
        self.loaded = False
        self.cut_off = False
        self.document: Document | None = None
        self.programs: Mapping[int, Program] = {}
        self.program_bytes = 0
        self.state_bytes = 0
        self.committed = 0
        self.entry: CatalogueEntry | None = None
        self.due = NEVER
        self.durable_due = NEVER
        self.doubt: PendingCommit | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a turn may be taken without loading first."""
        return self.loaded and self.doubt is None and not self.cut_off

    @property
    def is_empty(self) -> bool:
        """Whether memory has nothing that the store has not: no job, or nothing loaded."""
        return self.document is None and self.doubt is None

    @property
    def is_live(self) -> bool:
        """Whether executions run, so that memory may know more of the job than the store."""
        return self.doubt is not None or (self.document is not None and bool(self.document.contexts))


def has_open_executions(document: Document | None) -> bool:
    """Whether a document just loaded has executions that were running when it was written."""
    return document is not None and any(run.state in LIVE for run in document.head.opens)


COUNTED_TIMES = 2
"""Parameters and responses count twice: a request made of them is as large, and kept until its answer."""


class OpenBytes:
    """What open executions keep and what is made of it, counted by job; `most` is what it may take.

    Of the jobs in memory, and of those that keep something larger than `engine.decision.SMALL_BYTES`. Those
    that are open when the process starts are counted as they are loaded, and may be more than that.

    `total`: how many are kept. `is_full`: no job may keep more. Where nothing is kept one turn has room in
    any case: else what is larger than the limit would wait for ever.
    """

    __slots__ = ("_most", "is_full", "total")

    def __init__(self, *, most: int) -> None:
        self._most = most
        self.total = 0
        self.is_full = False

    def note(self, cached: CachedJob, size: int) -> None:
        """The executions of this job take `size` bytes now."""
        self.total += size - cached.open_bytes
        cached.open_bytes = size
        self.is_full = self.total >= self._most

    def admit(self, cached: CachedJob, size: int) -> bool:
        """Notes that they take `size` bytes; False: there is no room for what is more of it than before."""
        more = size - cached.open_bytes
        if more > 0 and self.total > 0 and self.total + more > self._most:
            return False
        self.note(cached, size)
        return True


def weigh_open(document: Document | None) -> int:
    """The bytes that the open executions of a job keep, with the requests that are made of them.

    What a body in flight is larger than what it was made of counts once, as do bodies of parts: those that
    are sent, and those that came, which are put together into one response that counts twice.
    """
    if document is None:
        return 0
    size = grown = 0
    for run in document.head.opens:
        size += len(run.params) + sum(map(len, run.replayed))
    for context in document.contexts.values():
        phase = context.phase
        if type(phase) is Calling:
            grown += phase.grown
        for kept in context.responses:
            size += len(kept.body or b"")
        if context.told is not None:
            size += len(context.told.response)
        if context.verdict is not None:
            size += len(context.verdict.body)
    return COUNTED_TIMES * size + grown + sum(map(_weigh_parts, document.contexts.values()))


def _weigh_parts(context: Context) -> int:
    size = 0
    match context.phase:
        case PartsQueued(ends=ends):
            size += sum(len(end.body or b"") for end in ends if end is not None)
        case PartsOpen(parts=parts):
            size += sum(len(part.end.body or b"") for part in parts if part.end is not None)
            size += sum(len(part.request.body or b"") for part in parts if part.request is not None)
        case _:
            pass
    return size


EVICTION_TRIES = 4
EVICTED_AT_ONCE = 64


class LockedJob:
    """A cached job with its lock, which is given in the order of the requests, to commands first.

    `is_busy`: the lock is taken; set by this class alone. `weight`: what the cache has counted for it.
    """

    __slots__ = ("_commands", "_waiting", "cached", "is_busy", "weight")

    def __init__(self, job_id: str) -> None:
        self.cached = CachedJob(job_id)
        self.weight = 0
        self.is_busy = False
        # Most jobs never have any.
        self._waiting: deque[asyncio.Future[None]] | None = None
        self._commands: deque[asyncio.Future[None]] | None = None

    async def acquire(self, *, is_command: bool = False) -> None:
        """Returns with the lock. Cancelled, it leaves the queue, and passes on a lock it has just got.

        `is_command`: before all that is none. Answers of thousands of calls may wait, each for a turn.
        """
        if not self.is_busy:
            self.is_busy = True
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if is_command:
            line = self._commands = self._commands or deque()
        else:
            line = self._waiting = self._waiting or deque()
        line.append(place)
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
        """Hands the lock to the next in the queue, without freeing it in between."""
        for line in (self._commands, self._waiting):
            while line:
                place = line.popleft()
                if not place.done():
                    place.set_result(None)
                    return
        self.is_busy = False


class JobCache:
    """At most about `most` jobs, whose programs and states take at most about `most_bytes` in memory.

    Evicts only jobs that are not in use and have nothing unwritten; what executions of live jobs keep is
    counted in `open_bytes` alone.
    """

    def __init__(self, *, most: int, most_bytes: int, open_bytes: OpenBytes) -> None:
        self.open_bytes = open_bytes
        self.most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._jobs: OrderedDict[str, LockedJob] = OrderedDict()
        self._live: set[str] = set()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def live(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return len(self._live)

    def live_jobs(self) -> tuple[str, ...]:
        """The ids of these jobs."""
        return tuple(self._live)

    def is_live(self, job_id: str) -> bool:
        """Whether this job is one of them."""
        return job_id in self._live

    def find(self, job_id: str) -> LockedJob | None:
        """The job if it is in memory."""
        return self._jobs.get(job_id)

    def enter(self, job_id: str) -> LockedJob:
        """The job's entry; a new one is not loaded yet."""
        locked = self._jobs.get(job_id)
        if locked is None:
            locked = self._jobs[job_id] = LockedJob(job_id)
        else:
            self._jobs.move_to_end(job_id)
        return locked

    def seize(self, job_id: str) -> LockedJob | None:
        """A new entry with its lock taken; None: the job is in memory, and may be in use."""
        if job_id in self._jobs:
            return None
        locked = self._jobs[job_id] = LockedJob(job_id)
        locked.seize()
        return locked

    def leave(self, locked: LockedJob) -> None:
        """Ends a turn: passes the lock on, and evicts what is not needed any more."""
        cached = locked.cached
        job_id = cached.job_id
        document = cached.document
        if cached.doubt is not None or (document is not None and document.contexts):  # `cached.is_live`
            self._live.add(job_id)
        else:
            self._live.discard(job_id)
        if cached.keeps_much or cached.open_bytes or cached.state_bytes > USUAL_BYTES:
            self._count_open(cached)
        weight = cached.program_bytes
        # Live ones stay whatever they weigh, and must not push out all others.
        if cached.state_bytes > USUAL_BYTES and not cached.is_live:
            weight += cached.state_bytes
        if weight != locked.weight:
            self._bytes += weight - locked.weight
            locked.weight = weight
        locked.release()
        if document is None and not locked.is_busy and cached.is_empty:
            self._drop(job_id)
        elif len(self._jobs) > self.most or self._bytes > self._most_bytes:
            self._evict()

    def _count_open(self, cached: CachedJob) -> None:
        is_live = cached.is_live
        self.open_bytes.note(cached, weigh_open(cached.document) if is_live else 0)
        cached.keeps_much &= is_live

    def _evict(self) -> None:
        """Drops the longest unused, some at once; a few that must stay go to the end of the order."""
        stayed = dropped = 0
        jobs = self._jobs
        while stayed < EVICTION_TRIES and dropped < EVICTED_AT_ONCE:
            job_id, locked = jobs.popitem(last=False)
            if locked.is_busy or locked.cached.is_live:
                jobs[job_id] = locked
                stayed += 1
                continue
            self._bytes -= locked.weight
            dropped += 1
            if len(jobs) <= self.most and self._bytes <= self._most_bytes:
                return

    def _drop(self, job_id: str) -> None:
        locked = self._jobs.pop(job_id, None)
        if locked is not None:
            self._bytes -= locked.weight
