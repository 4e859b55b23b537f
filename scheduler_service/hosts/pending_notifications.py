"""The notifications that are not settled yet, and which of them may be dropped."""

from collections.abc import Iterable

from msgspec.structs import replace

from scheduler_service.domain.effects import Delivery
from scheduler_service.engine.notification_retry import may_be_superseded

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
