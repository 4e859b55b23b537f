"""Sends notifications: first tries in the order of their events, retries when they are due."""

import asyncio
from collections.abc import Iterable

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Outcome
from scheduler_service.engine.notification_retry import (
    INTERVAL,
    RETRIES,
    after_try,
    record_of,
    request_of_try,
)
from scheduler_service.hosts.background_tasks import Tasks
from scheduler_service.hosts.chat_robots import NO_ROBOTS, Robots
from scheduler_service.hosts.host_dependencies import Redact
from scheduler_service.hosts.pending_notifications import (
    FailedNotifications,
    FirstTries,
    PendingNotifications,
    Takeover,
    damage_logger,
    read_pages,
)
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.errors import DeliveryUnreadable, StoreError
from scheduler_service.ports.history import Batch, History
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import Sender
from scheduler_service.ports.state import Settlement, StateStore


class DeliveryRecords:
    """Records of deliveries and their tries, masked by `redact`."""

    def __init__(self, *, history: History, clock: Timekeeper, redact: Redact, holder: str) -> None:
        self._history = history
        self._clock = clock
        self._redact = redact
        self._holder = holder

    def record(self, delivery: Delivery) -> None:
        """Records one that is new or superseded, not durably: after a crash `adopt` does it again."""
        batch = self.batch(delivery, None)
        if batch is not None:
            self._history.append(batch, durable=False)

    def hand_over(self, settled: Delivery, batch: Batch | None) -> None:
        """Records a settled delivery; with a durable one the record is in the store's `unwritten` already."""
        if batch is not None:
            self._history.append(batch, durable=settled.durable)

    def batch(self, delivery: Delivery, outcome: Outcome | None) -> Batch | None:
        """The record of a delivery after a try, or without one; None: nothing of it is recorded."""
        now = self._clock.now()
        record, tenant = record_of(delivery, outcome, now, self._holder), delivery.tenant
        records = self._redact((record,), detail=delivery.detail, tenant=tenant)
        if not records:
            return None
        return Batch(delivery.uid, delivery.job_id, delivery.tenant, _sequence(delivery), now.wall, records)


def _sequence(delivery: Delivery) -> int:
    """The sequence of a try's batch: below 0, where no turn of the job has a sequence."""
    return -(delivery.execute_number << 32 | (delivery.ordinal & 0xFFFFFF) << 8 | delivery.tries & 0xFF) - 1


PAGE_SIZE = 500
RESENT_AT_ONCE = 16
SETTLE_PAUSE_MS = SECOND
LOADED_AT_ONCE = 16
"""Tries of deliveries whose body is in the store alone: so many are in memory at a time."""
_DONE = frozenset({DeliveryState.DELIVERED, DeliveryState.FAILED})
"""The states in which the store needs a delivery no more."""


class NotificationSender:
    """Tries deliveries for as long as the pure `engine.notification_retry` asks for it.

    Durable ones are in the store and are settled there after each try; after a crash between a try and its
    settlement a delivery is sent again under the same `webhook-id`. Deliveries without a guarantee are in
    memory alone, but for those that `lacks_room` has told to be made durable. `retries` and `interval` (ms)
    are the settings of `notification`. No more than about `most_body_bytes` of large bodies are in memory
    (None: all are), except of those that are tried. What goes to one of the `robots` waits until that may
    take it, and counts as delivered where that says so. `holder` is this process (`write_holder`).
    """

    def __init__(
        self,
        *,
        sender: Sender,
        store: StateStore,
        history: History,
        clock: Timekeeper,
        redact: Redact,
        log: Log,
        retries: int = RETRIES,
        interval: int = INTERVAL,
        most_body_bytes: int | None = None,
        robots: Robots = NO_ROBOTS,
        holder: str = "",
    ) -> None:
        self._sender = sender
        self._store = store
        self._clock = clock
        self._records = DeliveryRecords(history=history, clock=clock, redact=redact, holder=holder)
        self._log = log
        self._note_damaged = damage_logger(log)
        self._retries = retries
        self._interval = interval
        self._pending = PendingNotifications(most_body_bytes=most_body_bytes)
        self.lacks_room = self._pending.lacks_room
        self._timers: dict[str, Alarm] = {}
        self._failed = FailedNotifications()
        self._tasks = Tasks()
        self._first_tries = FirstTries(tasks=self._tasks, attempt=self._try_pending)
        self._takeover = Takeover()
        self._dismissed: set[str] = set()
        self._loads = asyncio.Semaphore(LOADED_AT_ONCE)
        self._robots = robots

    def __len__(self) -> int:
        """How many deliveries are pending."""
        return len(self._pending)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being sent or waits for its first try; retries may wait."""
        return len(self._tasks) == 0

    def take(self, delivery: Delivery) -> None:
        """A new delivery, committed with its turn; it is tried after those of its execution before it."""
        if delivery.delivery_id in self._pending or self._takeover.has_taken_over(delivery.delivery_id):
            return
        self._pending.put(delivery)
        self._records.record(delivery)
        self._first_tries.add(delivery)
        superfluous = self._pending.superfluous(delivery.uid)
        if superfluous is not None:
            self._drop(superfluous)
            self._records.record(msgspec.structs.replace(superfluous, state=DeliveryState.SUPERSEDED))

    def hold(self) -> None:
        """New deliveries wait until those of an earlier process are adopted, which were there before them."""
        self._first_tries.hold()
        self._takeover.begin(self._clock.now().wall)

    def end_hold(self) -> None:
        """Before a stop: new ones without a guarantee wait no longer.

        Durable ones follow those that nobody has adopted, at the next start.
        """
        if self._takeover.is_open:
            self._takeover.give_up()
            self.adopt(())

    def adopt(self, deliveries: Iterable[Delivery]) -> None:
        """Durable deliveries of an earlier process go on; those in the outbox are left to `resend_outbox`.

        All of them at once; `leave_body` makes them small. New ones that were held back follow them.
        """
        now = self._clock.now().steady
        adopted = self._takeover.end(deliveries, self._pending)
        self._pending.put_first(adopted)
        untried = []
        for delivery in adopted:
            if delivery.tries == 0:
                self._records.record(delivery)  # the record of the earlier process was lost with it
            if delivery.due is None:
                untried.append(delivery)
            else:
                # More is left only where the clock was set back while no process ran.
                self._plan(delivery.delivery_id, min(delivery.due - now, self._interval))
        self._first_tries.release(untried)

    async def resend(self, name: str) -> bool:
        """Tries a delivery that is pending, failed or in the outbox at once; False: there is none.

        `name` is its id with its tenant, as a job's key. Returns when the try has ended. Raises StoreError.
        """
        delivery = await self._find_own(name)
        if delivery is None:
            return False
        await self._try(delivery)
        return True

    async def dismiss(self, name: str) -> bool:
        """Gives up what is pending, failed or in the outbox; False: there is none. Raises StoreError.

        `name` as for `resend`.
        """
        delivery = await self._find_own(name)
        if delivery is None:
            return False
        delivery_id = delivery.delivery_id
        dismissed = msgspec.structs.replace(delivery, state=DeliveryState.DISMISSED, due=None)
        batch = self._records.batch(dismissed, None)
        if delivery.durable:
            await self._store.settle((Settlement(dismissed, done=True, batch=batch),))
            self._takeover.note_settled(delivery_id)
        if self._pending.is_sending(delivery_id):
            self._dismissed.add(delivery_id)
        self._drop(delivery)
        self._records.hand_over(dismissed, batch)
        return True

    async def resend_outbox(self) -> int:
        """`system://outbox`: tries whatever lies in the outbox once more; how many. Raises StoreError."""
        tried = 0
        async for page in read_pages(
            lambda after: self._store.deliveries(after, PAGE_SIZE), self._note_damaged
        ):
            waiting = [one for one in page if one.state == DeliveryState.OUTBOX]
            to_robots = [one for one in waiting if one.robot in self._robots]
            others = [one for one in waiting if one.robot not in self._robots]
            for start in range(0, len(others), RESENT_AT_ONCE):
                await asyncio.gather(*map(self._try, others[start : start + RESENT_AT_ONCE]))
            tried += len(others)
            for one in to_robots:  # in their order; those that have to wait are tried by a later round
                if not self._robots[one.robot].wait():
                    await self._try(one)
                    tried += 1
        return tried

    async def stop(self) -> None:
        """Sends no more; durable deliveries go on after the next start."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await self._tasks.cancel()

    async def _try_pending(self, delivery_id: str) -> None:
        delivery = self._pending.get(delivery_id)
        if delivery is None or self._takeover.keeps_back(delivery):
            return
        robot = self._robots.get(delivery.robot)
        if robot is not None and (pause := robot.wait()):
            self._plan(delivery_id, pause)
            return
        if not delivery.is_body_stored:
            await self._try(delivery)
            return
        async with self._loads:
            await self._try_stored(delivery_id)

    async def _try_stored(self, delivery_id: str) -> None:
        """The try of a delivery whose body the store has, if it is still pending then."""
        try:
            stored = await self._read(delivery_id)
        except DeliveryUnreadable as error:
            self._note_damaged(error)
            stored = None
        except StoreError as error:
            self._log("delivery_not_read", delivery=delivery_id, error=str(error))
            self._plan(delivery_id, SETTLE_PAUSE_MS)
            return
        delivery = self._pending.get(delivery_id)
        if delivery is None:
            return
        if stored is None:
            self._drop(delivery)
            return
        await self._try(msgspec.structs.replace(delivery, request=stored.request, is_body_stored=False))

    async def _try(self, delivery: Delivery) -> None:
        """One try, its settlement and its record."""
        delivery_id = delivery.delivery_id
        if not self._pending.begin(delivery_id):
            return
        was_pending = delivery_id in self._pending  # else it failed, or is not adopted yet
        self._dismissed.discard(delivery_id)
        try:
            outcome, refusal = await self._send(delivery)
            was_dropped = was_pending and delivery_id not in self._pending
            if was_dropped or delivery_id in self._dismissed:  # by somebody, meanwhile
                return
            now = self._clock.now()
            after = after_try(
                delivery, outcome, now, retries=self._retries, interval=self._interval, refusal=refusal
            )
            batch = self._records.batch(after, outcome)
            if after.durable:
                await self._settle(after, batch)
            self._records.hand_over(after, batch)
            self._place(after)  # not before: a retry that came due during the settlement would find it in use
        finally:
            self._dismissed.discard(delivery_id)
            self._pending.end(delivery_id)

    async def _send(self, delivery: Delivery) -> tuple[Outcome, str | None]:
        """The outcome of one try, and in words of the receiver why it is none that counts."""
        request, robot = request_of_try(delivery), self._robots.get(delivery.robot)
        if robot is None:
            return await self._sender.send(request), None
        outcome = await robot.send(self._sender, request)
        return outcome, robot.refuse(outcome)

    def _place(self, after: Delivery) -> None:
        """Puts the delivery where it waits for its next try, if there is one."""
        if after.state == DeliveryState.PENDING:
            self._pending.put(after)
            self._plan(after.delivery_id, (after.due or 0) - self._clock.now().steady)
            return
        self._drop(after)
        if after.state == DeliveryState.FAILED:
            self._failed.keep(after)

    def _plan(self, delivery_id: str, pause: int) -> None:
        known = self._timers.pop(delivery_id, None)
        if known is not None:
            known.cancel()
        self._timers[delivery_id] = self._clock.call_after(pause, lambda: self._retry(delivery_id))

    def _retry(self, delivery_id: str) -> None:
        self._timers.pop(delivery_id, None)
        self._tasks.start(self._try_pending(delivery_id))

    def _drop(self, delivery: Delivery) -> None:
        self._pending.drop(delivery.delivery_id)
        self._failed.forget(delivery.delivery_id)
        timer = self._timers.pop(delivery.delivery_id, None)
        if timer is not None:
            timer.cancel()

    async def _settle(self, after: Delivery, batch: Batch | None) -> None:
        """Writes the settlement, repeatedly if need be: else a restart sends it again."""
        settlement = Settlement(after, done=after.state in _DONE, batch=batch)
        while True:
            try:
                await self._store.settle((settlement,))
            except StoreError as error:
                self._log("delivery_not_settled", delivery=after.delivery_id, error=str(error))
                await self._clock.sleep(SETTLE_PAUSE_MS)
            else:
                self._takeover.note_settled(after.delivery_id)
                return

    async def _find_own(self, name: str) -> Delivery | None:
        """None also where it is another tenant's, whose job may have gone: nobody else knows whose it is."""
        tenant, delivery_id = read_job_key(name)
        found = await self._find(delivery_id)
        return found if found is not None and found.tenant == tenant else None

    async def _find(self, delivery_id: str) -> Delivery | None:
        known = self._pending.get(delivery_id) or self._failed.get(delivery_id)
        if known is not None and not known.is_body_stored:
            return known
        stored = await self._read(delivery_id)
        if known is None or stored is None:
            return stored
        return msgspec.structs.replace(known, request=stored.request, is_body_stored=False)

    async def _read(self, delivery_id: str) -> Delivery | None:
        """The delivery as the store has it; None: it has none. Raises StoreError."""
        if not (delivery_id and delivery_id.isascii() and delivery_id.isprintable()):
            return None
        # The next one in the order of ids, which have no `~`: large ones that follow it are not read.
        after = delivery_id[:-1] + chr(ord(delivery_id[-1]) - 1) + "~"
        try:
            page = await self._store.deliveries(after, 1)
        except DeliveryUnreadable as error:
            if error.delivery_id == delivery_id:
                raise
            return None
        return page[0] if page and page[0].delivery_id == delivery_id else None
