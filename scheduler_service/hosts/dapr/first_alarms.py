"""The alarms of jobs that this node has created together: set after the answer, the soonest first.

Their actors may live anywhere and have taken no turn yet. What is due within 30 s waits in this process and
rings wherever the job lives; what is farther gets a reminder of a name of its own, which does no harm where a
turn has set another one meanwhile. What is not set when this node ends is left to the sweep.
"""

import heapq

from scheduler_service.domain.moments import SECOND, Due
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.hosts.dapr.reminders import NEAR_MS, ReminderAlarms, first_moment
from scheduler_service.hosts.dapr.sidecar import FIRST_ALARM
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.ports.errors import StoreError

REGISTRATIONS_AT_ONCE = 8
REGISTRATION_RETRY_PAUSE_MS = SECOND
# At 300 registrations a second as many as the sweep still finds by the death of their node (70 s).
MOST_WAITING = 20_000


class FirstAlarms:
    """Sets alarms beside the creations that want them; `registered` counts reminders."""

    def __init__(self, *, node: NodeContext, alarms: ReminderAlarms, tasks: Tasks) -> None:
        self._sidecar = node.sidecar
        self._clock = node.clock
        self._log = node.log
        self._alarms = alarms
        self._tasks = tasks
        self._waiting: list[tuple[int, str]] = []
        self._at_work = 0
        self._is_closed = False
        self.registered = 0

    @property
    def has_room(self) -> bool:
        """Whether alarms of further jobs may be given."""
        return not self._is_closed and len(self._waiting) < MOST_WAITING

    def arm(self, job_id: str, due: Due) -> None:
        """The job is created and due then. Returns at once."""
        now = self._clock.now()
        moment = first_moment(due, now)
        if moment is None or self._is_closed:
            return
        if moment - now.steady <= NEAR_MS:
            self._wait_here(job_id, moment)
            return
        heapq.heappush(self._waiting, (moment, job_id))
        if self._at_work < REGISTRATIONS_AT_ONCE:
            self._at_work += 1
            self._tasks.start(self._register())

    def close(self) -> None:
        """This node stops: no further reminder is set."""
        self._is_closed = True

    async def _register(self) -> None:
        try:
            while self._waiting and not self._is_closed:
                await self._set(*heapq.heappop(self._waiting))
        finally:
            self._at_work -= 1

    async def _set(self, moment: int, job_id: str) -> None:
        pause = moment - self._clock.now().steady
        if pause <= NEAR_MS:
            self._wait_here(job_id, moment)
            return
        try:
            await self._sidecar.remind(job_id, pause, FIRST_ALARM)
        except StoreError as error:
            self._log("reminder_not_set", jobId=job_id, error=str(error))
            heapq.heappush(self._waiting, (moment, job_id))
            await self._clock.sleep(REGISTRATION_RETRY_PAUSE_MS)
        else:
            self.registered += 1

    def _wait_here(self, job_id: str, moment: int) -> None:
        self._alarms.again(job_id, max(moment - self._clock.now().steady, 0))
