"""The wait of a reply for the history: reads at any node show what a caller was told (SPEC section 10)."""

from collections.abc import Awaitable, Callable

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.tasks import Tasks, ends_within
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log

LONGEST_WAIT_MS = SECOND
"""The longest wait of a reply for records that the history cannot take."""


class HistoryWait:
    """Returns when the history has what was recorded here so far, within a second.

    The actor is held meanwhile, so after a wait that failed no other reply waits, until the history writes
    again: alarms and cancels are not queued behind a database that is down. `flush` raises StoreUnavailable.
    """

    def __init__(self, *, flush: Callable[[], Awaitable[None]], clock: Timekeeper, log: Log) -> None:
        self._flush = flush
        self._clock = clock
        self._log = log
        self._tasks = Tasks()
        self._is_behind = False

    async def __call__(self, job_id: str) -> None:
        """Waits, if the history has written what was last asked for. Never raises."""
        if self._is_behind:
            if not len(self._tasks):
                self._tasks.start(self._ask())
            return
        asking = self._tasks.start(self._ask())
        has_ended = await ends_within(LONGEST_WAIT_MS, asking, clock=self._clock)
        error = asking.result() if has_ended else f"nothing was written in {LONGEST_WAIT_MS} ms"
        if error:
            self._is_behind = True
            self._log("history_not_awaited", jobId=job_id, error=error)

    async def _ask(self) -> str:
        """What keeps the history from writing; empty: it has written."""
        try:
            await self._flush()
        except StoreError as error:
            return str(error)
        self._is_behind = False
        return ""
