"""The notifications that have failed, as far as they are kept to be sent again by hand."""

from collections import OrderedDict

from scheduler_service.domain.effects import Delivery

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
