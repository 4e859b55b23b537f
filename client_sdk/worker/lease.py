"""One lease: renewed while its part is done, until it is completed or lost (SPEC section 13)."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from datetime import datetime

from client_sdk.client.call_retries import Patience
from client_sdk.client.queues import Queues
from client_sdk.errors import Absent, Conflict, LimitReached, NotWanted, Problem, SdkError
from client_sdk.loops import run_on
from client_sdk.models import Completion, answers
from client_sdk.models.step import RENEWALS_OF_A_LEASE
from client_sdk.outages import RENEWALS, OutageLog
from client_sdk.target.execution import AttemptReport

LOG = logging.getLogger("client_sdk")
ONE_TRY = Patience(retries=0)
COMPLETION = Patience(retries=12, longest_wait=10.0)
REST_SECONDS = 5.0
"""Between two rounds of reporting an end, each of which takes about a minute."""
OUTAGE_SECONDS = 300.0
SOONEST_SECONDS = 0.005
"""Between two renewals, whatever the queue asks for: a renewal without a pause would do nothing else."""
OVERDUE_SECONDS = 0.5
"""Between two renewals, at least, after the lease's end by this process's clock."""
SERVER_ERROR = 500
AFTER_DEADLINE_SECONDS = 0.25
"""The scheduler has ended an attempt by then."""
FALLBACK_SECONDS = 10.0
"""A lease's length if the clocks are too far apart to derive it from `leaseUntil`."""


class Lease:
    """The lease of one part. It is lost when the queue reports that.

    A scheduler that was down extends every lease to its full length again, so a lease may still be valid
    while no scheduler answers; it is given up `outage` seconds after its end by this process's clock. At the
    `deadline` of its work it is renewed: the answer says whether the work is still awaited, as after a
    downtime it may be. `outages` is the log of all leases of one worker. Its calls are made on the event loop
    on which it was made, whoever makes them.
    """

    def __init__(
        self,
        *,
        queues: Queues,
        work: answers.Work,
        deadline: datetime | None = None,
        outages: OutageLog | None = None,
        outage: float = OUTAGE_SECONDS,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._queues = queues
        self._lease = work.lease
        self._execution = work.execution_id
        self.outages = outages or OutageLog()
        self._outage = outage
        self._wall = wall
        self._steady = steady
        self._pause = pause
        self._progress: str | None = None
        self._message: str | None = None
        self._every = 0.0
        self._length = 0.0
        left = math.inf if deadline is None else deadline.timestamp() - wall()
        self._deadline = steady() + left + AFTER_DEADLINE_SECONDS
        self._read_times(work)
        self._home = asyncio.get_running_loop()
        self._keeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to keep it, before anybody waits in `keep`."""
        self._keeping = asyncio.create_task(self._renew_in_time())

    async def keep(self) -> None:
        """Renews the lease until it raises NotWanted: the lease is lost, or the work was cancelled."""
        await run_on(self._home, self._keep())

    async def report(self, report: AttemptReport) -> None:
        """Sends progress with a renewal. Raises NotWanted."""
        await run_on(self._home, self._report(report))

    async def complete(self, completion: Completion) -> None:
        """Reports the part's end until it is accepted. Raises NotWanted: it has no effect; other SdkError."""
        await run_on(self._home, self._complete(completion))

    async def _keep(self) -> None:
        if self._keeping is None:
            self.start()
        assert self._keeping is not None
        await self._keeping

    async def _renew_in_time(self) -> None:
        while True:
            await self._pause(self._wait())
            try:
                await self._renew()
            except NotWanted:
                raise
            except SdkError as error:
                if not self._may_hold(error):
                    raise NotWanted("the lease ended before it could be renewed") from error
                self.outages.failed(RENEWALS, self._execution, error)

    async def _report(self, report: AttemptReport) -> None:
        self._progress, self._message = report.progress or self._progress, report.message
        await self._renew()

    async def _complete(self, completion: Completion) -> None:
        while True:
            try:
                await self._queues.complete(self._lease, completion, patience=COMPLETION)
            except (Conflict, Absent) as refusal:
                raise NotWanted(refusal.detail) from refusal
            except SdkError as error:
                if not (_is_away(error) and self._may_hold(error)):
                    raise
                LOG.warning("the end of a part could not be reported yet: %s", error)
            else:
                return
            await self._pause(REST_SECONDS)

    async def _renew(self) -> None:
        try:
            renewed = await self._queues.renew(
                self._lease, progress=self._progress, message=self._message, patience=ONE_TRY
            )
        except (Conflict, Absent) as refusal:
            raise NotWanted(f"the lease is lost: {refusal.detail}") from refusal
        self.outages.succeeded(RENEWALS)
        self._read_times(renewed)
        if renewed.cancelled:
            raise NotWanted("the execution was cancelled")

    def _read_times(self, answer: answers.Work | answers.Renewed) -> None:
        length = answer.lease_seconds or answer.lease_until.timestamp() - self._wall()
        self._length = length if length > 0 else FALLBACK_SECONDS
        self._ends = self._steady() + self._length
        renew = answer.renew_seconds or 0.0
        latest = self._length / RENEWALS_OF_A_LEASE
        self._every = max(min(renew, latest) if renew > 0 else latest, SOONEST_SECONDS)  # NaN is not above 0

    def _wait(self) -> float:
        """Seconds until the next renewal: as requested, sooner after a failed one, and at the deadline."""
        left = self._left()
        soon = left / 2 if left > 0 else OVERDUE_SECONDS
        wait = min(self._every, max(soon, self._every / 10))
        until = self._deadline - self._steady()
        return until if 0 < until < wait else wait

    def _may_hold(self, error: SdkError) -> bool:
        """Whether the lease may still be valid after a renewal failed with `error`."""
        return self._left() + (self._outage if _is_away(error) else 0.0) > 0

    def _left(self) -> float:
        return self._ends - self._steady()


def _is_away(error: SdkError) -> bool:
    """Whether the error says nothing about the lease: no scheduler answered, or it was overloaded."""
    return not isinstance(error, Problem) or isinstance(error, LimitReached) or error.status >= SERVER_ERROR
