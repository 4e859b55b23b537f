"""After a start: resumes everything that an earlier process left unfinished."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from scheduler_service.domain.document import Calling, Checking, PartsOpen, Resolving
from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.document_bytes import decode, marks_of
from scheduler_service.hosts.job_cache import LoadedJob
from scheduler_service.hosts.notification_sender import NotificationSender
from scheduler_service.hosts.pending_notifications import damage_logger, leave_body, read_pages
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import DeliveryUnreadable, StoreError
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import OpenJob, OwnedStore

PAGE = 500
GROUP = 250
"""Jobs with calls that are loaded at a time: so many definitions a store keeps that it read with them."""
GROUP_BYTES = 8 << 20
"""So many bytes their documents have, or one alone has more: being read, they take several times that."""
CALLS_AT_ONCE = 128
PAUSE_MS = SECOND
WAITING_AT_ONCE = 16
"""Firings have begun by then, and must not wait for these."""

IN_FLIGHT = (Calling, Checking, PartsOpen, Resolving)
MARKS = marks_of(IN_FLIGHT)
Wake = Callable[[str, LoadedJob | None], Awaitable[None]]


class Recovery:
    """Hands unwritten batches to the history, wakes every open job, and hands deliveries to their sender.

    `wake` loads a job, unless it is given as loaded just now, so that its open calls are sent again or their
    execution is closed as lost; it never raises. Jobs that had calls in flight are woken first, thousands
    within seconds (SPEC section 8): the store finds them by marks in their documents, and of the others
    nothing is loaded until firings have begun. They wait for something, and whatever reaches one wakes it
    before. Answers that come meanwhile may be held back by `holding`: the calls are out sooner. Deliveries
    are read behind the calls, as there may be hundreds of megabytes of them; new ones wait until then.
    """

    def __init__(
        self,
        *,
        store: OwnedStore,
        history: History,
        notifications: NotificationSender,
        wake: Wake,
        clock: Timekeeper,
        log: Log,
        holding: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._store = store
        self._history = history
        self._notifications = notifications
        self._wake = wake
        self._clock = clock
        self._log = log
        self._holding = holding
        self._waiting: list[str] = []

    async def run(self) -> None:
        """Returns when all that was in flight has been resumed. Raises StoreUnavailable."""
        self._notifications.hold()
        await self._hand_over_batches()
        with self._holding():
            await self._wake_calls()

    async def run_rest(self) -> None:
        """Sends the deliveries that were left, and wakes the open jobs that `run` has not. Never raises."""
        await self._hand_over_deliveries()
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), PAGE):
            await self._wake_all(
                [(job_id, None) for job_id in waiting[start : start + PAGE]], WAITING_AT_ONCE
            )

    async def _hand_over_batches(self) -> None:
        after = ("", 0)
        while True:
            page = await self._store.unwritten(after, PAGE)
            for batch in page:
                self._history.append(batch, durable=True)
            if not page:
                return
            after = (page[-1].uid, page[-1].sequence)

    async def _hand_over_deliveries(self) -> None:
        found: list[Delivery] = []
        try:
            async for page in read_pages(self._read_deliveries, damage_logger(self._log)):
                found += map(leave_body, page)
        except Exception as error:  # noqa: BLE001 - a defect must not hold back all new ones for ever
            self._log("deliveries_left", error=str(error))
        self._notifications.adopt(found)

    async def _read_deliveries(self, after: str) -> list[Delivery]:
        """A page of them, once the store answers."""
        while True:
            try:
                return await self._store.deliveries(after, PAGE)
            except DeliveryUnreadable:
                raise
            except StoreError as error:
                self._log("deliveries_not_read", error=str(error))
                await self._clock.sleep(PAUSE_MS)

    async def _wake_calls(self) -> None:
        for group in group_jobs(await self._find_calls()):
            found = list(zip(group, await asyncio.gather(*map(self._load, group)), strict=True))
            await self._wake_all((job for job in found if _has_calls(job[1])), CALLS_AT_ONCE)
            self._waiting += [job_id for job_id, loaded in found if not _has_calls(loaded)]

    async def _find_calls(self) -> list[OpenJob]:
        """The jobs that may have calls in flight. The others wait, and nothing of them is loaded yet."""
        in_flight: list[OpenJob] = []
        after = ""
        while True:
            page = await self._store.open_jobs(after, PAGE, MARKS)
            for job in page:
                if job.is_marked:
                    in_flight.append(job)
                else:
                    self._waiting.append(job.job_id)
            if len(page) < PAGE:
                return in_flight
            after = page[-1].job_id

    async def _load(self, job_id: str) -> LoadedJob | None:
        """The job; None: it cannot be read, and may have calls: `wake` meets the same error, and says so."""
        try:
            stored = await self._store.load(job_id)
            document = None if stored is None or stored.document is None else decode(stored.document)
        except Exception:  # noqa: BLE001 - one job that cannot be read must not end the start
            return None
        return LoadedJob(stored, document)

    async def _wake_all(self, jobs: Iterable[tuple[str, LoadedJob | None]], at_once: int) -> None:
        """Wakes them in order, never with more than `at_once` tasks: each takes the next when one is done."""
        rest = iter(jobs)

        async def wake_rest() -> None:
            for job_id, loaded in rest:
                await self._wake(job_id, loaded)

        await asyncio.gather(*(wake_rest() for _ in range(at_once)))


def group_jobs(jobs: Iterable[OpenJob]) -> Iterable[list[str]]:
    """Their ids, divided into what is loaded at a time: up to `GROUP`, or `GROUP_BYTES`."""
    group: list[str] = []
    size = 0
    for job in jobs:
        size += job.size
        if group and (size > GROUP_BYTES or len(group) == GROUP):
            yield group
            group, size = [], job.size
        group.append(job.job_id)
    if group:
        yield group


def _has_calls(loaded: LoadedJob | None) -> bool:
    if loaded is None:
        return True
    contexts = {} if loaded.document is None else loaded.document.contexts
    return any(isinstance(context.phase, IN_FLIGHT) for context in contexts.values())
