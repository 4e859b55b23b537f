"""Divides what waits to be written into groups of a bounded size."""

from collections.abc import Iterable, Iterator

from scheduler_service.domain.effects import Delivery
from scheduler_service.persistence.sqlite.commit_group import Settle, Write
from scheduler_service.ports.state import Commit

GROUP_BYTES = 4 << 20
"""So many bytes a group has at most, or one write alone: being written, it takes three times as much."""
LARGE_GROUP_BYTES = 1 << 20
"""So many bytes of large writes are put into a group with small ones, which wait until it is written."""


def divide(writes: list[Write], weight: int) -> Iterable[list[Write]]:
    """The same writes in their order, in groups that are written one after the other.

    `weight`: what `weigh` says of all of them together.
    """
    return (writes,) if weight <= GROUP_BYTES else _divide(writes)


def _divide(writes: list[Write]) -> Iterator[list[Write]]:
    start = size = 0
    for place, write in enumerate(writes):
        own = weigh(write)
        if size and size + own > GROUP_BYTES:
            yield writes[start:place]
            start, size = place, 0
        size += own
    yield writes[start:] if start else writes


def weigh(write: Write) -> int:
    """About the bytes of a write: of a commit its texts, of others the bodies of deliveries."""
    deliveries: Iterable[Delivery]
    if isinstance(write, Commit):
        size, deliveries = len(write.document or b""), write.deliveries
        if write.definition is not None:
            size += len(write.definition)
        if not deliveries:  # as with most
            return size
    elif isinstance(write, Settle):
        size, deliveries = 0, [one.delivery for one in write.settlements]
    else:
        return 0
    for delivery in deliveries:
        size += len(delivery.request.body or b"")
    return size
