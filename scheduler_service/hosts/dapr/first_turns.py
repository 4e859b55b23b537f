"""The first turns of jobs that were created without their actors: what rings and loads them."""

import heapq
from collections.abc import Callable, Collection

from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.background_tasks import Tasks
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.node import DaprParts
from scheduler_service.hosts.dapr.reminders import NEAR_MS, ReminderAlarms
from scheduler_service.ports.cluster import Unbegun
from scheduler_service.ports.errors import StoreError

LOOKS_AHEAD_MS = 30 * SECOND
# More than the sweep looks ahead, however late a creation is written and however much its clocks differ.
WAITS_AT_CREATOR_MS = LOOKS_AHEAD_MS + 15 * SECOND
# What was due before is overdue, and found as such.
LOOKS_BACK_MS = 2 * SECOND
PAGE = 1_000
PAGES = 5
TakeDue = Callable[[str, int], None]
"""Gets a job and the wall moment at which it is due: `ReminderAlarms.ring_at`, `FirstLoads.expect`."""


def waits_at_creator(created_at: int, due: int) -> bool:
    """Whether a job of an array that is due then waits in the process that created it; wall moments."""
    return due - created_at <= WAITS_AT_CREATOR_MS


class FirstRings:
    """Rings jobs that were created in arrays for their first turn: no reminder guards them yet.

    What is due soon after its creation waits in the process that created it. All else is read from the
    database shortly before its moment, by the node that sweeps; each look begins where the last one ended.
    `ring_at` and `expect` get each job that waits here by that.
    """

    def __init__(self, *, node: DaprParts, ring_at: TakeDue, expect: TakeDue) -> None:
        self._store = node.cluster.store
        self._ring_at = ring_at
        self._expect = expect
        self._seen = (0, "")

    async def look(self, alive: Collection[Holder], now: Now) -> None:
        """Finds what is due within 30 s, at most 5,000 jobs. Raises StoreUnavailable."""
        self._seen = max(self._seen, (now.wall - LOOKS_BACK_MS, ""))
        for _ in range(PAGES):
            page = await self._store.unbegun(self._seen, now.wall + LOOKS_AHEAD_MS, PAGE)
            for one in page:
                self._take(one, alive)
            if len(page) < PAGE:
                self._seen = (now.wall + LOOKS_AHEAD_MS + 1, "")
                return
            self._seen = (page[-1].due, page[-1].job_id)

    def _take(self, one: Unbegun, alive: Collection[Holder]) -> None:
        if one.creator in alive and waits_at_creator(one.created_at, one.due):
            return
        self._ring_at(one.job_id, one.due)
        self._expect(one.job_id, one.due)


LOADS_AT_ONCE = 4
"""Few, so that those who fire meanwhile are not late: a load takes some milliseconds of CPU in all."""
MOST_WAITING = 20_000
"""As many jobs as a node keeps in memory."""
LEAST_EARLY_MS = SECOND
"""What is due sooner is loaded by its ring."""


class FirstLoads:
    """Loads jobs that were created in arrays shortly before they are due first, where their actors live.

    Loading a job takes longer than its firing; a herd of jobs that are not loaded would be late by that. A
    loaded job's alarm waits where the job lives, so its firing needs no sidecar. Where a load fails, the
    job's ring loads it. `alarms` are those of this process, where a job waits until it is loaded.
    """

    def __init__(self, *, node: DaprParts, client: ActorClient, alarms: ReminderAlarms, tasks: Tasks) -> None:
        self._clock = node.clock
        self._client = client
        self._alarms = alarms
        self._tasks = tasks
        self._waiting: list[tuple[int, str]] = []
        self._early = 0
        self._at_work = 0
        self._is_closed = False

    def expect(self, job_id: str, due: int) -> None:
        """The job, which rings here, is due first at the wall moment `due`. Never raises."""
        if self._is_closed or len(self._waiting) + self._early >= MOST_WAITING:
            return
        early = due - NEAR_MS - self._clock.now().wall
        if early > 0:  # loaded now, its alarm would need a reminder
            self._early += 1
            self._clock.call_after(early, lambda: self._expect_again(job_id, due))
            return
        heapq.heappush(self._waiting, (due, job_id))
        if self._at_work < LOADS_AT_ONCE:
            self._at_work += 1
            self._tasks.start(self._load_all())

    def _expect_again(self, job_id: str, due: int) -> None:
        self._early -= 1
        self.expect(job_id, due)

    def close(self) -> None:
        """This node stops: it loads no more."""
        self._is_closed = True
        self._waiting.clear()

    async def _load_all(self) -> None:
        try:
            while self._waiting:
                due, job_id = heapq.heappop(self._waiting)
                if due - self._clock.now().wall >= LEAST_EARLY_MS:
                    await self._load(job_id, due)
        finally:
            self._at_work -= 1

    async def _load(self, job_id: str, due: int) -> None:
        # Before the load, for the job may live here. If this process dies meanwhile, the sweep finds the job.
        self._alarms.drop_ring(job_id)
        try:
            await self._client.load(job_id)
        except StoreError:  # the job's ring meets what keeps it from being loaded, and says so
            self._alarms.ring_at(job_id, due)
