"""What every store does with deliveries that are damaged: those before and behind one are read."""

from collections.abc import Awaitable, Callable

import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.hosts.pending_notifications import read_pages
from scheduler_service.ports.errors import DeliveryUnreadable

ALL = range(1, 6)
"""The numbers of the deliveries (`samples.delivery`) that a store has."""
DAMAGED = ("d1", "d3", "d4")
"""The ids of those that are damaged then."""
TORN = b"\x93\xa4torn"
Deliveries = Callable[[str, int], Awaitable[list[Delivery]]]


def raise_damaged(error: DeliveryUnreadable) -> None:
    """Where none is expected."""
    raise error


async def check(deliveries: Deliveries) -> None:
    """Each is named, once; the others are read, in pages and one by one."""
    for size in (1, 2, 500):
        assert await read_all(deliveries, size) == (["d2", "d5"], list(DAMAGED))
    with pytest.raises(DeliveryUnreadable, match=r"notification d3 in the store is damaged.*db repair"):
        await deliveries("d2", 500)


async def read_all(deliveries: Deliveries, size: int) -> tuple[list[str], list[str]]:
    """The ids of those that can be read, and of the damaged ones."""
    found: list[str] = []
    damaged: list[str] = []
    pages = read_pages(lambda after: deliveries(after, size), lambda error: damaged.append(error.delivery_id))
    async for page in pages:
        found += [one.delivery_id for one in page]
    return found, damaged
