"""What the history hears of notifications."""

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import Outcome
from scheduler_service.engine.notification_retry import record_of
from scheduler_service.hosts.host_parts import Redact
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.history import Batch, History


class DeliveryRecords:
    """Records of deliveries and their tries, masked by `redact`."""

    def __init__(self, *, history: History, clock: Timekeeper, redact: Redact) -> None:
        self._history = history
        self._clock = clock
        self._redact = redact

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
        records = self._redact((record_of(delivery, outcome, now),), detail=delivery.detail)
        if not records:
            return None
        return Batch(delivery.uid, delivery.job_id, delivery.tenant, _sequence(delivery), now.wall, records)


def _sequence(delivery: Delivery) -> int:
    """The sequence of a try's batch: below 0, where no turn of the job has a sequence."""
    return -(delivery.execute_number << 32 | (delivery.ordinal & 0xFFFFFF) << 8 | delivery.tries & 0xFF) - 1
