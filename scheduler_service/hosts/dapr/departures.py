"""Says in one line of the log how many jobs left this node together, why, and how long it took."""

from collections.abc import Callable

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.log import Log

QUIET_MS = 4 * SECOND
"""Jobs that leave within so long of each other leave together; till then this node knows of a new one."""
JOINED, GONE, PLACEMENT = "node_joined", "node_gone", "placement"


class Departures:
    """Counts jobs that daprd takes from this node. `others` names the other nodes that are alive."""

    def __init__(self, *, others: Callable[[], frozenset[Holder]], clock: Timekeeper, log: Log) -> None:
        self._others = others
        self._clock = clock
        self._log = log
        self._known = others()
        self._jobs = self._running = self._open = 0
        self._began = self._ended = 0
        self._alarm: Alarm | None = None

    def begin(self, *, is_running: bool) -> None:
        """A job leaves; `is_running`: its executions are handed over."""
        if not self._jobs:
            self._began = self._clock.now().steady
        self._jobs += 1
        self._running += is_running
        self._open += 1

    def end(self) -> None:
        """It has left, and what ran of it is handed over, or could not be."""
        self._open -= 1
        self._ended = self._clock.now().steady
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._clock.call_after(QUIET_MS, self._tell)

    def close(self) -> None:
        """Says what was not said yet."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._tell()

    def _tell(self) -> None:
        self._alarm = None
        if self._open or not self._jobs:
            return
        others = self._others()
        reason = JOINED if others - self._known else GONE if self._known - others else PLACEMENT
        took = self._ended - self._began
        self._log("jobs_moved", jobs=self._jobs, running=self._running, reason=reason, ms=took)
        self._known, self._jobs, self._running = others, 0, 0
