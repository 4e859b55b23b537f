"""Notifications of a job without a server: sent in the background, retried, finally given up."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from client_sdk.lite.sender import LiteSender
from client_sdk.tasks import Tasks
from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.engine.notification_retry import after_try

LOG = logging.getLogger("client_sdk")


class LiteNotifications:
    """Sends notifications independently of each other: a slow target delays no other (SPEC section 7)."""

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
        self._tasks = Tasks()

    def send(self, delivery: Delivery) -> None:
        """Starts to send a notification."""
        self._tasks.start(self._deliver(delivery))

    async def finish(self) -> None:
        """Returns when all notifications are delivered or given up."""
        await self._tasks.wait_for_all()

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
    """The present moment on both clocks."""
    return Now(wall=time.time_ns() // 1_000_000, steady=time.monotonic_ns() // 1_000_000)
