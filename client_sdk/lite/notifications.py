"""Notifications of a job without a server: sent beside its executions, tried again, in the end given up."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from client_sdk.lite.sender import LiteSender
from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.engine.notification_retry import after_try

LOG = logging.getLogger("client_sdk")


class LiteNotifications:
    """Delivers what is told, each delivery by itself: a slow target delays nobody (SPEC section 7)."""

    def __init__(
        self,
        *,
        sender: LiteSender,
        retries: int,
        interval: float,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sender = sender
        self._retries = retries
        self._interval = round(interval * SECOND)
        self._pause = pause
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, delivery: Delivery) -> None:
        """Begins to deliver."""
        task = asyncio.create_task(self._deliver(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Returns when everything is delivered or given up."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _deliver(self, delivery: Delivery) -> None:
        while delivery.state == "pending":
            outcome = await self._sender.send(delivery.request)
            now = read_clock()
            delivery = after_try(delivery, outcome, now, retries=self._retries, interval=self._interval)
            if delivery.due is not None:
                await self._pause((delivery.due - now.steady) / SECOND)
        if delivery.state != "delivered":
            LOG.warning("notification %s to %s was given up", delivery.event, delivery.request.url)


def read_clock() -> Now:
    """This moment on both time lines."""
    return Now(wall=time.time_ns() // 1_000_000, steady=time.monotonic_ns() // 1_000_000)
