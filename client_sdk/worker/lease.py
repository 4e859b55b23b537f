"""One lease: renewed while its work goes on, and watched for its loss (SPEC section 13)."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from client_sdk.client.queues import Queues
from client_sdk.client.retrying import Patience
from client_sdk.errors import Absent, Conflict, NotWanted, SdkError
from client_sdk.models import Completion, answers
from client_sdk.target.reporting import Report

LOG = logging.getLogger("client_sdk")
ONCE = Patience(retries=0)
END = Patience(retries=12, longest_wait=10.0)
"""An end is told for about a minute: by then the lease is lost in any case."""
SHARE = 3
"""Without `renewSeconds` a lease is renewed after this part of its length."""
UNKNOWN_LENGTH = 10.0
"""Seconds: taken for a lease's length where the clocks are too far apart to read it from `leaseUntil`."""


class Lease:
    """The hold on one part. It is lost where the queue says so, or where no renewal came through in time."""

    def __init__(
        self,
        *,
        queues: Queues,
        work: answers.Work,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._queues = queues
        self._lease = work.lease
        self._wall = wall
        self._steady = steady
        self._pause = pause
        self._progress: str | None = None
        self._message: str | None = None
        self._every = 0.0
        self._length = 0.0
        self._take_times(work)

    async def keep(self) -> None:
        """Renews again and again. Raises NotWanted: the lease is lost, or the work was cancelled."""
        while True:
            await self._pause(self._wait())
            try:
                await self._renew()
            except NotWanted:
                raise
            except SdkError as error:
                if self._left() <= 0:
                    raise NotWanted("the lease ended before it could be renewed") from error
                LOG.warning("a lease could not be renewed yet: %s", error)

    async def report(self, report: Report) -> None:
        """Progress goes out with a renewal. Raises NotWanted."""
        self._progress, self._message = report.progress or self._progress, report.message
        await self._renew()

    async def complete(self, completion: Completion) -> None:
        """The part's end. Raises NotWanted where it does not count any more, other SdkError."""
        try:
            await self._queues.complete(self._lease, completion, patience=END)
        except (Conflict, Absent) as refusal:
            raise NotWanted(f"the lease is lost: {refusal.detail}") from refusal

    async def _renew(self) -> None:
        try:
            renewed = await self._queues.renew(
                self._lease, progress=self._progress, message=self._message, patience=ONCE
            )
        except (Conflict, Absent) as refusal:
            raise NotWanted(f"the lease is lost: {refusal.detail}") from refusal
        self._take_times(renewed)
        if renewed.cancelled:
            raise NotWanted("the execution was cancelled")

    def _take_times(self, said: answers.Work | answers.Renewed) -> None:
        length = said.lease_seconds or said.lease_until.timestamp() - self._wall()
        self._length = length if length > 0 else UNKNOWN_LENGTH
        self._ends = self._steady() + self._length
        self._every = min(said.renew_seconds or self._length / SHARE, self._length / 2)

    def _wait(self) -> float:
        """Seconds until the next renewal: as asked for; after one that failed sooner, while there is time."""
        return min(self._every, max(self._left() / 2, self._every / 10))

    def _left(self) -> float:
        return self._ends - self._steady()
