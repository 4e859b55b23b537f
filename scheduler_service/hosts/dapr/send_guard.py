"""Holds back the calls of a node that others may have counted as dead (docs/decisions/0096)."""

from functools import partial

from scheduler_service.domain.turn_events import Unsent
from scheduler_service.domain.wire import Token
from scheduler_service.hosts.background_tasks import Tasks
from scheduler_service.hosts.dapr.cluster_jobs import ClusterJobs
from scheduler_service.hosts.dapr.node import DaprParts
from scheduler_service.hosts.event_redelivery import Redelivery
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.sending import MayGo

POLL_MS = 100


class NodeSendGuard:
    """A call is sent only within the period (`Liveness`) in which its turn was begun.

    A call that is held back is reported to its job as Unsent, wherever the job lives now: its node sends the
    call, if it is still awaited and not in flight elsewhere. So no call waits for an answer that cannot come.
    """

    def __init__(self, *, node: DaprParts, store: ClusterJobs, redelivery: Redelivery) -> None:
        self._liveness = node.cluster.heartbeat.liveness
        self._holder = node.holder
        self._clock = node.clock
        self._log = node.log
        self._store = store
        self._redelivery = redelivery
        self._reports = Tasks()

    def __len__(self) -> int:
        """How many calls were held back without their job having been notified yet."""
        return len(self._reports)

    def admit(self, job_id: str) -> MayGo:
        """Whether no other node can have gone on with the job since its present turn was begun."""
        return partial(self._liveness.lasts, self._store.period_of(job_id))

    def turn_back(self, job_id: str, token: Token) -> None:
        """Reports the call to its job, as soon as this node counts as alive again."""
        self._log("call_not_sent", jobId=job_id, execution=token.execute_number)
        self._reports.start(self._report(job_id, Unsent(token, self._holder)))

    async def stop(self) -> None:
        """Drops all reports: this node is gone, and the next node of its jobs looks after their calls."""
        await self._reports.cancel()

    async def _report(self, job_id: str, event: Unsent) -> None:
        while not self._liveness.is_current:
            await self._clock.sleep(POLL_MS)
        try:
            await self._redelivery.deliver(job_id, event)
        except StoreError as error:
            self._log("unsent_not_reported", jobId=job_id, error=str(error))
