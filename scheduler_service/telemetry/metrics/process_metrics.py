"""Everything that one process counts of itself: executions, calls, requests of the API, its loop."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler_service.domain.wire import Answer, Fault, FaultKind, Outcome
from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.executions import ExecutionMetrics
from scheduler_service.telemetry.metrics.gathering import Gathering
from scheduler_service.telemetry.metrics.own_process import OwnProcess
from scheduler_service.telemetry.metrics.samples import SHORT_MS, Histogram, Milliseconds, Sample

_CLASSES = 10
_USUAL = range(2, 6)


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


class CallMetrics:
    """The figures of all calls of a process: steps, checks and notifications alike."""

    def __init__(self) -> None:
        self._statuses = [0] * _CLASSES
        self._faults = Counter({kind.value: 0 for kind in FaultKind})
        self._durations = Milliseconds(families.CALL_DURATION)
        self._short = self._durations.short

    def count(self, outcome: Outcome) -> None:
        """One more (`telemetry.decorators.ObserveCall`)."""
        if type(outcome) is Answer:
            self._statuses[outcome.status // 100 % _CLASSES] += 1
        elif isinstance(outcome, Fault):
            self._faults[outcome.kind.value] += 1
        elapsed = outcome.elapsed
        if 0 <= elapsed < SHORT_MS:
            self._short[elapsed] += 1
        else:
            self._durations.observe(elapsed)

    def samples(self) -> Iterator[Sample]:
        """All figures so far."""
        for digit, count in enumerate(self._statuses):
            if count or digit in _USUAL:
                yield Sample(families.CALLS.name, (f"{digit}xx",), count)
        for kind, count in self._faults.items():
            yield Sample(families.CALLS.name, (kind,), count)
        yield self._durations.sample()


class RequestMetrics:
    """The figures of the API; as many rows as it has routes, methods and statuses."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[tuple[str, str], Histogram] = {}

    def count(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """One more answer. `route` is the template of the path, and `method` one that the route has."""
        self._counts[method, route, status] += 1
        durations = self._durations.get((method, route))
        if durations is None:
            durations = self._durations[method, route] = Histogram(families.API_DURATION)
        durations.observe(seconds)

    def samples(self) -> Iterator[Sample]:
        """All figures so far."""
        for (method, route, status), count in self._counts.items():
            yield Sample(families.API_REQUESTS.name, (method, route, str(status)), count)
        for labels, durations in self._durations.items():
            yield durations.sample(*labels)
