"""The queues of a cluster at one node: parts that others publish, and what nodes that died have left."""

import asyncio
from functools import partial
from typing import Any

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import explain
from scheduler_service.ports.log import Log
from scheduler_service.ports.queues import SharedQueues
from scheduler_service.services.pull_queues import PullQueues, each_part
from scheduler_service.telemetry.log_summaries import Outage

POLL_MS = SECOND // 4
WAKE_AGAIN_MS = SECOND
"""How often claims look again at a queue that has parts, of which they may have none."""
LEFT_AFTER_MS = 10 * SECOND
"""What its node has not delivered for so long is delivered by another one."""
DOWNTIME_MS = 7 * SECOND
"""After so long without a sweep no node was there: one that died is replaced within six seconds."""


class QueueWatch:
    """Wakes claims that wait here for what another node has published, and delivers what was left behind.

    Both find by looking: nothing has to reach this node, so nothing is missed.
    """

    def __init__(self, *, queues: PullQueues, table: SharedQueues, clock: Timekeeper, log: Log) -> None:
        self._queues = queues
        self._table = table
        self._clock = clock
        self._outage = Outage("queues_not_read", "queues_read_again", log=log)
        self._woken: dict[tuple[str, str], int] = {}
        self._under_way: dict[str, asyncio.Task[Any]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look for parts that claims wait for, four times a second."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def tend(self) -> None:
        """Ends leases and queue timeouts, and delivers what was left. Raises StoreError.

        One node of the cluster does this, once a second.
        """
        if not self._queues.has_started:
            return
        now = self._clock.now().steady
        self._queues.take(await self._queues.sweep())
        delivery, before = self._queues.delivery, now - LEFT_AFTER_MS
        async for ended in each_part(partial(self._table.ended, before=before)):
            if ended.part_id not in self._under_way:
                self._follow(ended.part_id, delivery.deliver_end(ended))
        async for changed in each_part(partial(self._table.changed, before=before)):
            if changed.part_id not in self._under_way:
                self._follow(changed.part_id, delivery.deliver_changes(changed))

    def _follow(self, part_id: str, task: "asyncio.Task[Any]") -> None:
        """A job that cannot be reached gets one delivery of a part at a time."""
        self._under_way[part_id] = task
        task.add_done_callback(lambda _: self._under_way.pop(part_id, None))

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(POLL_MS)
            try:
                await self._look()
                self._outage.succeed()
            except Exception as error:  # noqa: BLE001 - nobody awaits this task: a defect would end it unseen
                self._outage.fail(explain(error))

    async def _look(self) -> None:
        """Wakes claims of queues that have a part. Raises StoreError."""
        now = self._clock.now().steady
        self._woken = {name: at for name, at in self._woken.items() if now - at < WAKE_AGAIN_MS}
        names = [name for name in self._queues.awaited if name not in self._woken]
        found = await self._table.claimable(names, now) if names else []
        if found:
            self._woken |= dict.fromkeys(found, now)
            self._queues.wake(found)
