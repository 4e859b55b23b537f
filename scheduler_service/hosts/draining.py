"""How a host drains: what it refuses meanwhile, and how long it waits (SPEC section 14)."""

from collections.abc import Callable

from scheduler_service.domain.events import Activated, Created, Released, Triggered, Updated
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log

STARTING = (Created, Updated, Triggered, Activated, Released)
"""The events that a draining host refuses, because they start something."""

STOPPING = "this node is stopping and starts nothing any more; ask again in a moment"
POLL_MS = 20


async def wait_for_rest(is_at_work: Callable[[], bool], *, clock: Timekeeper, grace: int) -> None:
    """Returns when nothing is at work any more, or after `grace` ms."""
    end = clock.now().steady + grace
    while is_at_work() and clock.now().steady < end:
        await clock.sleep(POLL_MS)


async def close_history(history: History, log: Log) -> None:
    """Flushes the history as far as possible, then closes it."""
    try:
        await history.flush()
    except StoreError as error:
        log("history_not_flushed", error=str(error))
    await history.close()
