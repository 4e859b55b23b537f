"""The jobs that an embedded host has in memory: a first-come lock for each, and a bounded cache."""

import asyncio
from collections import OrderedDict, deque

from scheduler_service.hosts.held import Held

LOOKS = 4


class Actor:
    """A held job with its lock. Who waits gets the lock in the order of asking.

    `is_busy`: somebody has the lock; only the actor itself changes it.
    """

    __slots__ = ("_waiting", "held", "is_busy")

    def __init__(self, job_id: str) -> None:
        self.held = Held(job_id)
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


class Actors:
    """At most about `most` jobs; only those that nobody uses and that know no more than the store go."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._actors: OrderedDict[str, Actor] = OrderedDict()
        self._live: set[str] = set()

    def __len__(self) -> int:
        return len(self._actors)

    @property
    def live(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return len(self._live)

    def is_live(self, job_id: str) -> bool:
        """Whether this job is one of them."""
        return job_id in self._live

    def find(self, job_id: str) -> Actor | None:
        """The job if it is in memory."""
        return self._actors.get(job_id)

    def enter(self, job_id: str) -> Actor:
        """The job's actor; a new one knows nothing yet."""
        actor = self._actors.get(job_id)
        if actor is None:
            actor = self._actors[job_id] = Actor(job_id)
        else:
            self._actors.move_to_end(job_id)
        return actor

    def seize(self, job_id: str) -> Actor | None:
        """A new actor with its lock taken; None: the job is in memory, and may be in use."""
        if job_id in self._actors:
            return None
        actor = self._actors[job_id] = Actor(job_id)
        actor.seize()
        return actor

    def leave(self, actor: Actor) -> None:
        """A turn has ended: the lock goes to the next, and what is not needed any more goes."""
        held = actor.held
        job_id = held.job_id
        if held.is_live:
            self._live.add(job_id)
        else:
            self._live.discard(job_id)
        actor.release()
        if held.document is None and not actor.is_busy and held.is_empty:
            self._actors.pop(job_id, None)
        elif len(self._actors) > self._most:
            self._evict()

    def _evict(self) -> None:
        """Looks at a few of the longest unused; those that must stay go to the end of the line."""
        for _ in range(LOOKS):
            job_id, actor = next(iter(self._actors.items()))
            if actor.is_busy or actor.held.is_live:
                self._actors.move_to_end(job_id)
            else:
                del self._actors[job_id]
                if len(self._actors) <= self._most:
                    return
