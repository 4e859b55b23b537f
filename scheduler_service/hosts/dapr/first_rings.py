"""Rings jobs that were created in arrays for their first turn: no reminder guards them yet.

What is due soon after its creation waits in the process that created it. All else is read from the database
shortly before its moment, by the node that sweeps.
"""

from collections.abc import Callable, Collection

from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.ports.cluster import Unbegun

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
    """Looks each time where it ended before. `ring_at` and `expect` get each job that waits here by that."""

    def __init__(self, *, node: NodeContext, ring_at: TakeDue, expect: TakeDue) -> None:
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
