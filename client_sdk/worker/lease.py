"""One lease: renewed while its work goes on, and watched for its loss (SPEC section 13)."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from client_sdk.client.queues import Queues
from client_sdk.client.retrying import Patience
from client_sdk.errors import Absent, Conflict, LimitReached, NotWanted, Problem, SdkError
from client_sdk.models import Completion, answers
from client_sdk.target.reporting import AttemptReport

LOG = logging.getLogger("client_sdk")
ONCE = Patience(retries=0)
END = Patience(retries=12, longest_wait=10.0)
REST = 5.0
"""Seconds between two rounds of telling an end, each of which takes about a minute."""
OUTAGE = 300.0
SHARE = 3
"""Without `renewSeconds` a lease is renewed after this part of its length."""
AFTER_END = 0.5
"""Seconds between two renewals, at least, where the lease has ended by this process's clock."""
SERVER_FAULT = 500
UNKNOWN_LENGTH = 10.0
"""Seconds: taken for a lease's length where the clocks are too far apart to read it from `leaseUntil`."""


class Lease:
    """The hold on one part, lost where the queue says so.

    A scheduler that was down gives every lease its whole length again, so while none answers nobody can say
    that the lease is lost: then it is given up `outage` seconds after its end by this process's clock.
    """

    def __init__(
        self,
        *,
        queues: Queues,
        work: answers.Work,
        outage: float = OUTAGE,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._queues = queues
        self._lease = work.lease
        self._outage = outage
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
                if not self._may_hold(error):
                    raise NotWanted("the lease ended before it could be renewed") from error
                LOG.warning("a lease could not be renewed yet: %s", error)

    async def report(self, report: AttemptReport) -> None:
        """Progress goes out with a renewal. Raises NotWanted."""
        self._progress, self._message = report.progress or self._progress, report.message
        await self._renew()

    async def complete(self, completion: Completion) -> None:
        """The part's end, told until it is taken or cannot count. Raises NotWanted, other SdkError."""
        while True:
            try:
                await self._queues.complete(self._lease, completion, patience=END)
            except (Conflict, Absent) as refusal:
                raise NotWanted(f"the lease is lost: {refusal.detail}") from refusal
            except SdkError as error:
                if not (_is_away(error) and self._may_hold(error)):
                    raise
                LOG.warning("the end of a part could not be told yet: %s", error)
            else:
                return
            await self._pause(REST)

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
        left = self._left()
        soon = left / 2 if left > 0 else AFTER_END
        return min(self._every, max(soon, self._every / 10))

    def _may_hold(self, error: SdkError) -> bool:
        """Whether the lease may still be ours, though it could not be renewed because of `error`."""
        return self._left() + (self._outage if _is_away(error) else 0.0) > 0

    def _left(self) -> float:
        return self._ends - self._steady()


def _is_away(error: SdkError) -> bool:
    """Whether no scheduler has said anything about the lease: none answers, or not now."""
    return not isinstance(error, Problem) or isinstance(error, LimitReached) or error.status >= SERVER_FAULT
