"""Workers and leases on a queue in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from client_sdk import Client
from client_sdk.client import Patience
from client_sdk.client.queues import Queues
from client_sdk.models import answers
from client_sdk.outages import OutageLog
from client_sdk.worker import Worker
from client_sdk.worker.lease import Lease
from client_sdk.worker.part import LocalRetry
from tests.unit.client_sdk.lines import Waits, connect
from tests.unit.client_sdk.queue import Queue

AT_ONCE = LocalRetry(retries=2, delay_seconds=0)


def make(**options: Any) -> Worker:
    """A worker of the queue `work`."""
    given = {"instance_id": "one", "wait_seconds": 5, "local_retry": AT_ONCE, "heartbeat_seconds": 1_000}
    return Worker("work", **(given | options))


@asynccontextmanager
async def running(worker: Worker, queue: Queue) -> AsyncIterator[None]:
    """The worker at work; it is stopped in good order in the end."""
    patience = Patience(retries=0)
    async with Client("http://scheduler.test", transport=queue.transport, patience=patience) as client:
        task = asyncio.create_task(worker.run(client))
        try:
            yield
        finally:
            worker.stop()
            async with asyncio.timeout(20):
                await task


def lease(
    queue: Queue,
    waits: Waits,
    *,
    steady: Any,
    outage: float = 0,
    line: Any = None,
    deadline: datetime | None = None,
    **work: Any,
) -> Lease:
    connection = connect(line or queue.transport, Patience(retries=0), waits)
    given = {"lease": "one", "executionId": "e", "requestCounts": 1, "request": {}}
    given["leaseUntil"] = datetime(2026, 1, 1, 0, 1, tzinfo=UTC).isoformat()
    wall = datetime(2026, 1, 1, tzinfo=UTC).timestamp
    read = answers.Work.model_validate(given | work)
    return Lease(
        queues=Queues(connection), work=read, deadline=deadline, outage=outage, wall=wall, steady=steady,
        pause=waits, outages=OutageLog(clock=steady),
    )  # fmt: skip


class Outage(Waits):
    """The queue is away for so many seconds of waiting; a minute later it wants no work any more."""

    def __init__(self, queue: Queue, seconds: float) -> None:
        super().__init__()
        self._queue, self._end = queue, seconds
        queue.is_down = True

    async def __call__(self, seconds: float) -> None:
        """Comes back when that has passed."""
        await super().__call__(seconds)
        self._queue.is_down = self.passed() < self._end
        if self.passed() > self._end + 60:
            self._queue.cancelled.add("one")

    def passed(self) -> float:
        """Seconds waited so far."""
        return sum(self.seconds)
