"""Delivers events that must reach their job, repeatedly while the store is unavailable."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from scheduler_service.domain.events import Event
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.replies import Reply
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError

FIRST_PAUSE = 100
LONGEST_PAUSE = 5 * SECOND
LEASE = 10 * MINUTE

Take = Callable[[str, Command], Awaitable[Reply]]


class Line(Protocol):
    """Where events wait at times before they are delivered."""

    @property
    def is_open(self) -> bool:
        """Whether none has to wait."""

    async def wait(self, event: Event) -> None:
        """Returns when `event` may be delivered."""


class Redelivery:
    """Repeats a delivery with growing pauses until the job takes the event, at most for `lease` ms.

    No pause is longer than `longest_pause` ms. Events wait in `line` first, where there is one and it is not
    open.
    """

    def __init__(
        self,
        *,
        take: Take,
        clock: Timekeeper,
        lease: int = LEASE,
        line: Line | None = None,
        longest_pause: int = LONGEST_PAUSE,
    ) -> None:
        self._take = take
        self._clock = clock
        self._lease = lease
        self._line = line
        self._longest_pause = longest_pause

    async def deliver(self, job_id: str, event: Event) -> None:
        """Returns when the job has taken `event`. Raises the StoreError of the last try after the lease."""
        if self._line is not None and not self._line.is_open:
            await self._line.wait(event)
        command = Command(event)
        end: int | None = None
        pause = FIRST_PAUSE
        while True:
            try:
                await self._take(job_id, command)
            except StoreError:
                now = self._clock.now().steady
                end = now + self._lease if end is None else end
                if now + pause > end:
                    raise
            else:
                return
            await self._clock.sleep(pause)
            pause = min(pause * 2, self._longest_pause)
