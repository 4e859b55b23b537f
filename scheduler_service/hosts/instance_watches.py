"""Watches the instances that have work of jobs in hand, outside of every turn."""

import asyncio

from scheduler_service.domain.effects import WatchInstance
from scheduler_service.domain.events import InstanceLost
from scheduler_service.domain.wire import Token
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.ports.services import Router


class InstanceWatches:
    """Delivers `InstanceLost` to a job when an instance that it watches is lost.

    Nothing waits for a watch: a host that drains leaves it, and the job begins it anew when it is loaded.
    """

    def __init__(self, *, router: Router, redelivery: Redelivery, log: Log) -> None:
        self._router = router
        self._redelivery = redelivery
        self._log = log
        self._tasks = Tasks()
        self._watching: dict[Token, asyncio.Task[None] | None] = {}

    def start(self, job_id: str, watch: WatchInstance) -> None:
        """Begins a watch; one that runs already goes on, and one that failed begins anew."""
        if watch.token not in self._watching:
            self._watching[watch.token] = self._tasks.start(self._watch(job_id, watch))

    def end_all(self, uid: str) -> None:
        """Ends the watches of one life of a job, which has left this process."""
        for token in [token for token in self._watching if token.uid == uid]:
            self.end(token)

    def end(self, token: Token) -> None:
        """Ends a watch; one whose loss is being delivered ends by itself."""
        task = self._watching.get(token)
        if task is not None:
            del self._watching[token]
            self._router.leave(token)
            task.cancel()

    async def stop(self) -> None:
        """Ends all watches, without an event."""
        await self._tasks.cancel()
        self._watching.clear()

    async def _watch(self, job_id: str, watch: WatchInstance) -> None:
        token = watch.token
        try:
            loss = await self._router.wait_for_loss(watch)
            self._watching[token] = None  # from here on it must not be cancelled
            await self._redelivery.deliver(job_id, InstanceLost(token, loss))
        except StoreError as error:
            self._log("loss_not_taken", jobId=job_id, execution=token.execute_number, error=str(error))
        finally:
            # Another task's entry is a watch that began after this one was ended.
            if self._watching.get(token, self) in (None, asyncio.current_task()):
                del self._watching[token]
