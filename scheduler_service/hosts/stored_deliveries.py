"""All durable deliveries of a store, in order of id: one that is damaged holds up none behind it."""

from collections.abc import AsyncIterator, Awaitable, Callable

from scheduler_service.domain.effects import Delivery
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
