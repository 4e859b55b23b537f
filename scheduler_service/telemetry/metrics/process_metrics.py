"""Everything that one process counts of itself."""

import asyncio
from collections.abc import Iterator, Sequence

from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.calls import CallMetrics
from scheduler_service.telemetry.metrics.executions import ExecutionMetrics
from scheduler_service.telemetry.metrics.gathering import Gathering
from scheduler_service.telemetry.metrics.own_process import OwnProcess
from scheduler_service.telemetry.metrics.requests import RequestMetrics
from scheduler_service.telemetry.metrics.samples import Histogram, Sample


class ProcessMetrics:
    """The figures of a process; whoever builds a part of it adds what it knows to `gathering`.

    `jobs` are the keys of jobs that have figures of their own.
    """

    def __init__(self, *, jobs: Sequence[str] = ()) -> None:
        self.executions = ExecutionMetrics(jobs=jobs)
        self.calls = CallMetrics()
        self.requests = RequestMetrics()
        self.loop_lag = Histogram(families.LOOP_LAG)
        self.gathering = Gathering()
        process = OwnProcess()
        self.gathering.read("executions", self.executions.samples)
        self.gathering.read("calls", self.calls.samples)
        self.gathering.read("api", self.requests.samples)
        self.gathering.read("event_loop", self._read_lag)
        self.gathering.ask("process", lambda: asyncio.to_thread(process.read), keep_seconds=0)

    def _read_lag(self) -> Iterator[Sample]:
        yield self.loop_lag.sample()
