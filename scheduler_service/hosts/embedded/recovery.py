"""After a start: resumes everything that an earlier process left unfinished."""

import asyncio
from collections.abc import Awaitable, Callable

from scheduler_service.domain.effects import Delivery
from scheduler_service.hosts.notification_sender import NotificationSender
from scheduler_service.ports.history import History
from scheduler_service.ports.state import StateStore

PAGE = 500
JOBS_AT_ONCE = 128


class Recovery:
    """Hands unwritten batches to the history and deliveries to their sender, and wakes every open job.

    `wake` loads a job, so that its open calls are sent again or their execution is closed as lost; it never
    raises. 128 jobs are woken at a time: thousands within seconds (SPEC section 8).
    """

    def __init__(
        self,
        *,
        store: StateStore,
        history: History,
        notifications: NotificationSender,
        wake: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = store
        self._history = history
        self._notifications = notifications
        self._wake = wake

    async def run(self) -> None:
        """Returns when all of it has been resumed. Raises StoreUnavailable."""
        await self._hand_over_batches()
        await self._hand_over_deliveries()
        await self._wake_open_jobs()

    async def _hand_over_batches(self) -> None:
        after = ("", 0)
        while True:
            page = await self._store.unwritten(after, PAGE)
            for batch in page:
                self._history.append(batch, durable=True)
            if len(page) < PAGE:
                return
            after = (page[-1].uid, page[-1].sequence)

    async def _hand_over_deliveries(self) -> None:
        found: list[Delivery] = []
        after = ""
        while True:
            page = await self._store.deliveries(after, PAGE)
            found.extend(page)
            if len(page) < PAGE:
                break
            after = page[-1].delivery_id
        self._notifications.adopt(found)

    async def _wake_open_jobs(self) -> None:
        places = asyncio.Semaphore(JOBS_AT_ONCE)

        async def wake(job_id: str) -> None:
            async with places:
                await self._wake(job_id)

        after = ""
        while True:
            page = await self._store.open_jobs(after, PAGE)
            await asyncio.gather(*map(wake, page))
            if len(page) < PAGE:
                return
            after = page[-1]
