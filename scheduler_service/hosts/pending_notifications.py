"""The notifications that wait: for a try, for those of an earlier process, or as failed."""

from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import DeliveryState
from scheduler_service.engine.notification_retry import may_be_superseded
from scheduler_service.hosts.background_tasks import Tasks
from scheduler_service.ports.errors import DeliveryUnreadable
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import NoteDamaged

ReadPage = Callable[[str], Awaitable[list[Delivery]]]
"""The deliveries behind an id, as `ports.state.StateStore.deliveries` has them."""


def damage_logger(log: Log) -> NoteDamaged:
    """What writes a line for each."""
    return lambda error: log("delivery_damaged", delivery=error.delivery_id, error=str(error))


async def read_pages(read: ReadPage, note_damaged: NoteDamaged) -> AsyncIterator[list[Delivery]]:
    """Page by page; `note_damaged` is told of each that is left out. Raises what `read` raises else."""
    after = ""
    while True:
        try:
            page = await read(after)
        except DeliveryUnreadable as error:
            note_damaged(error)
            after = error.after
            continue
        if not page:
            return
        yield page
        after = page[-1].delivery_id


class _Execution(NamedTuple):
    uid: str
    number: int


class FirstTries:
    """The deliveries that wait for their first try, by execution; each execution with any has a task.

    `attempt` tries one by its id; it never raises. Between `hold` and `release` none is tried: what an
    earlier process left is not known yet, and goes first.
    """

    def __init__(self, *, tasks: Tasks, attempt: Callable[[str], Awaitable[None]]) -> None:
        self._tasks = tasks
        self._attempt = attempt
        self._queues: dict[_Execution, deque[str]] = {}
        self._is_held = False

    def add(self, delivery: Delivery) -> None:
        """It is tried after those of its execution before it."""
        execution = _Execution(delivery.uid, delivery.execute_number)
        queue = self._queues.get(execution)
        if queue is not None:
            queue.append(delivery.delivery_id)
            return
        self._queues[execution] = deque((delivery.delivery_id,))
        if not self._is_held:
            self._tasks.start(self._run(execution))

    def hold(self) -> None:
        """What comes now waits; called before anything has come."""
        self._is_held = True

    def release(self, earlier: Iterable[Delivery]) -> None:
        """Tries `earlier`, in their order, and then what has waited; without `hold` they are added."""
        waiting, is_held = self._queues, self._is_held
        if is_held:
            self._queues = {}
        for delivery in earlier:
            self.add(delivery)
        if not is_held:
            return
        for execution, queue in waiting.items():
            self._queues.setdefault(execution, deque()).extend(queue)
        self._is_held = False
        for execution in self._queues:
            self._tasks.start(self._run(execution))

    async def _run(self, execution: _Execution) -> None:
        queue = self._queues[execution]
        try:
            while queue:
                await self._attempt(queue.popleft())
        finally:
            del self._queues[execution]


FAILED_KEPT = 1_000
FAILED_BODY_BYTES = 4 << 20
"""What their bodies may take in memory."""


class FailedNotifications:
    """Those that failed last: of all of them, so many and so much that earlier ones are forgotten."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, Delivery] = OrderedDict()
        self._bytes = 0

    def get(self, delivery_id: str) -> Delivery | None:
        """The one with this id; None: it has not failed, or is forgotten."""
        return self._failed.get(delivery_id)

    def keep(self, failed: Delivery) -> None:
        """Keeps one more."""
        self.forget(failed.delivery_id)
        self._failed[failed.delivery_id] = failed
        self._bytes += _body_bytes(failed)
        while len(self._failed) > FAILED_KEPT or (self._bytes > FAILED_BODY_BYTES and self._failed):
            self.forget(next(iter(self._failed)))

    def forget(self, delivery_id: str) -> None:
        """It goes on, or is given up."""
        failed = self._failed.pop(delivery_id, None)
        if failed is not None:
            self._bytes -= _body_bytes(failed)


def _body_bytes(delivery: Delivery) -> int:
    return len(delivery.request.body or b"")


class Takeover:
    """Which durable deliveries of the store are those of an earlier process, while new ones wait for them."""

    def __init__(self) -> None:
        self._is_given_up = False
        self._settled: set[str] | None = None
        self._since = 0
        self._also_new: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether they are not known yet."""
        return self._settled is not None

    def begin(self, now: int) -> None:
        """They are read from `now` (wall) on."""
        self._settled = set()
        self._since = now

    def give_up(self) -> None:
        """The process stops before they are known."""
        self._is_given_up = True

    def keeps_back(self, delivery: Delivery) -> bool:
        """Whether a new delivery has to follow them at the next start."""
        return self._is_given_up and delivery.durable

    def note_settled(self, delivery_id: str) -> None:
        """Somebody has settled it by its id: it may have been read before as one that goes on."""
        if self._settled is not None:
            self._settled.add(delivery_id)

    def has_taken_over(self, delivery_id: str) -> bool:
        """Whether a new delivery was among those that were read: its turn tells of it later."""
        return delivery_id in self._also_new

    def end(self, deliveries: Iterable[Delivery], pending: Container[str]) -> list[Delivery]:
        """Those of `deliveries` that go on and are not `pending`, in the order of their first tries.

        Their ids do not have that order. Those in the outbox do not go on by themselves.
        """
        settled, self._settled = self._settled or set(), None
        going_on = [
            delivery
            for delivery in sorted(deliveries, key=lambda one: (one.uid, one.execute_number, one.ordinal))
            if delivery.state == DeliveryState.PENDING
            and delivery.delivery_id not in pending
            and delivery.delivery_id not in settled
        ]
        if self._since:
            self._also_new.update(one.delivery_id for one in going_on if one.created_at >= self._since)
        return going_on


MOST = 100
LARGE_BODY_BYTES = 16 << 10
"""A longer body may be left to the store, if that has it."""


def leave_body(delivery: Delivery) -> Delivery:
    """The delivery without its body, where that is large and the store has it."""
    if not delivery.durable or len(delivery.request.body or b"") <= LARGE_BODY_BYTES:
        return delivery
    return replace(delivery, request=replace(delivery.request, body=None), is_body_stored=True)


class PendingNotifications:
    """Deliveries by id; those of each life of a job in the order in which they came.

    Large bodies are in memory up to `most_body_bytes` together (None: all are). Of durable ones beyond that
    `get` returns the delivery without its body; for others `lacks_room` says so before they are put here.
    """

    def __init__(self, *, most_body_bytes: int | None) -> None:
        self._room = most_body_bytes
        self._large: dict[str, int] = {}
        self._by_uid: dict[str, dict[str, Delivery]] = {}
        self._uids: dict[str, str] = {}
        self._sending: set[str] = set()

    def __len__(self) -> int:
        return len(self._uids)

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self._uids

    def lacks_room(self, delivery: Delivery) -> bool:
        """Whether the body of one that is in memory alone is large, and there is no room for it."""
        size = len(delivery.request.body or b"")
        return size > LARGE_BODY_BYTES and self._room is not None and size > self._room

    def get(self, delivery_id: str) -> Delivery | None:
        """The delivery, or None when it is not pending (any more)."""
        uid = self._uids.get(delivery_id)
        return None if uid is None else self._by_uid[uid][delivery_id]

    def put(self, delivery: Delivery) -> None:
        """Adds it, or gives it new values in its old place."""
        size = len(delivery.request.body or b"")
        if size > LARGE_BODY_BYTES:
            delivery = self._make_room(delivery, size)
        self._uids[delivery.delivery_id] = delivery.uid
        self._by_uid.setdefault(delivery.uid, {})[delivery.delivery_id] = delivery

    def put_first(self, deliveries: Iterable[Delivery]) -> None:
        """Adds those of an earlier process, in their order, in front of the others of each life."""
        deliveries = tuple(deliveries)
        newer = {uid: self._by_uid.pop(uid, {}) for uid in {delivery.uid for delivery in deliveries}}
        for delivery in deliveries:
            self.put(delivery)
        for uid, siblings in newer.items():
            self._by_uid[uid].update(siblings)

    def drop(self, delivery_id: str) -> None:
        """Forgets it."""
        self._give_room_back(delivery_id)
        uid = self._uids.pop(delivery_id, None)
        if uid is None:
            return
        siblings = self._by_uid[uid]
        del siblings[delivery_id]
        if not siblings:
            del self._by_uid[uid]

    def begin(self, delivery_id: str) -> bool:
        """Marks it as being sent; False when it is being sent already."""
        if delivery_id in self._sending:
            return False
        self._sending.add(delivery_id)
        return True

    def is_sending(self, delivery_id: str) -> bool:
        """Whether it is being sent."""
        return delivery_id in self._sending

    def end(self, delivery_id: str) -> None:
        """It is not being sent any more."""
        self._sending.discard(delivery_id)

    def superfluous(self, uid: str) -> Delivery | None:
        """The oldest that may be dropped where more than 100 of a job are pending (SPEC section 7)."""
        siblings = self._by_uid.get(uid, {})
        if len(siblings) <= MOST:
            return None
        return next(
            (
                one
                for one in siblings.values()
                if may_be_superseded(one) and one.delivery_id not in self._sending
            ),
            None,
        )

    def _make_room(self, delivery: Delivery, size: int) -> Delivery:
        """The delivery with its body, if there is room for that."""
        if self._room is None:
            return delivery
        self._give_room_back(delivery.delivery_id)
        if delivery.durable and size > self._room:
            return leave_body(delivery)
        self._large[delivery.delivery_id] = size
        self._room -= size
        return delivery

    def _give_room_back(self, delivery_id: str) -> None:
        size = self._large.pop(delivery_id, 0)
        if size and self._room is not None:
            self._room += size
