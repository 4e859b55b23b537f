"""The notifications of an earlier process, from the start until all of them are known and go on."""

from collections.abc import Container, Iterable

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import DeliveryState


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
