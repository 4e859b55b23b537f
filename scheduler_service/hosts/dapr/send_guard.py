"""The gate of a node among others: a call leaves only where no other node can have made it meanwhile."""

from functools import partial

from scheduler_service.domain.events import Unsent
from scheduler_service.domain.wire import Holder, Token
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.dapr.actor_store import ActorStore
from scheduler_service.hosts.dapr.deactivation import Deactivation
from scheduler_service.hosts.dapr.liveness import Liveness
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import MayGo

LOOK = 100


class NodeSendGuard:
    """A call leaves only within the stretch of life (`Liveness`) in which its turn was begun.

    One that is turned back is told to its job, wherever that lives now: who has the job makes the call, if
    it is still awaited and nobody else has it in flight. So no call waits for an answer that cannot come.
    """

    def __init__(
        self,
        *,
        store: ActorStore,
        tenure: Liveness,
        leaving: Deactivation,
        redelivery: Redelivery,
        holder: Holder,
        clock: Timekeeper,
        log: Log,
    ) -> None:
        self._store = store
        self._tenure = tenure
        self._leaving = leaving
        self._redelivery = redelivery
        self._holder = holder
        self._clock = clock
        self._log = log
        self._telling = Tasks()

    def __len__(self) -> int:
        """How many calls were turned back of which their job has not heard yet."""
        return len(self._telling)

    def admit(self, job_id: str) -> MayGo:
        """Whether nobody else can have gone on with the job since its present turn was begun."""
        return partial(self._tenure.lasts, self._store.tenure_of(job_id))

    def turn_back(self, job_id: str, token: Token) -> None:
        """Tells the job, as soon as this node is heard of again."""
        self._log("call_turned_back", jobId=job_id, execution=token.execute_number)
        self._telling.start(self._tell(job_id, Unsent(token, self._holder)))

    async def stop(self) -> None:
        """Tells nobody any more: this node is gone, and whoever has its jobs looks after their calls."""
        await self._telling.cancel()

    async def _tell(self, job_id: str, event: Unsent) -> None:
        """After a handover that is under way: it says of this very call that it flies here."""
        while not self._tenure.is_current:
            await self._clock.sleep(LOOK)
        await self._leaving.wait_for(job_id)
        try:
            await self._redelivery.deliver(job_id, event)
        except StoreError as error:
            self._log("unsent_not_told", jobId=job_id, error=str(error))
