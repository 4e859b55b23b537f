"""What one process counts of itself, executions, calls, its loop, and what the system says of it."""

import asyncio
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from scheduler_service.domain.wire import Answer, Fault, FaultKind, Outcome
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.execution_metrics import ExecutionMetrics
from scheduler_service.telemetry.metrics.gathering import Gathering
from scheduler_service.telemetry.metrics.metric_list import SHORT_MS, Histogram, Milliseconds, Sample

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
        self.loop_lag = Histogram(metric_list.LOOP_LAG)
        self.gathering = Gathering()
        process = OwnProcess()
        self.gathering.read("executions", self.executions.samples)
        self.gathering.read("calls", self.calls.samples)
        self.gathering.read("api", self.requests.samples)
        self.gathering.read("event_loop", lambda: [self.loop_lag.sample()])
        self.gathering.ask("process", lambda: asyncio.to_thread(process.read), keep_seconds=0)


class CallMetrics:
    """The figures of all calls of a process: steps, checks and notifications alike."""

    def __init__(self) -> None:
        self._statuses = [0] * _CLASSES
        self._faults = Counter({kind.value: 0 for kind in FaultKind})
        self._durations = Milliseconds(metric_list.CALL_DURATION)
        self._short = self._durations.short

    def count(self, outcome: Outcome) -> None:
        """One more (`telemetry.turn_observers.ObserveCall`)."""
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
                yield Sample(metric_list.CALLS.name, (f"{digit}xx",), count)
        for kind, count in self._faults.items():
            yield Sample(metric_list.CALLS.name, (kind,), count)
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
            durations = self._durations[method, route] = Histogram(metric_list.API_DURATION)
        durations.observe(seconds)

    def samples(self) -> Iterator[Sample]:
        """All figures so far."""
        for (method, route, status), count in self._counts.items():
            yield Sample(metric_list.API_REQUESTS.name, (method, route, str(status)), count)
        for labels, durations in self._durations.items():
            yield durations.sample(*labels)


_PROC = Path("/proc/self")
START_TIME = 22
"""The field of `/proc/PID/stat` with the moment of the start, in ticks since the boot (proc(5))."""


class OwnProcess:
    """Reads the figures of the process that made it."""

    def __init__(self) -> None:
        self._started = time.time()

    def read(self) -> Sequence[Sample]:
        """Memory and descriptors only where the system says them. Blocks for some milliseconds."""
        return list(self._samples())

    def _samples(self) -> Iterator[Sample]:
        used = os.times()
        yield Sample(metric_list.PROCESS_START.name, (), self._started)
        yield Sample(metric_list.PROCESS_CPU.name, (), used.user + used.system)
        yield Sample(metric_list.PROCESS_MAX_FDS.name, (), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        try:
            pages = int((_PROC / "statm").read_text().split()[1])
            descriptors = sum(1 for _ in (_PROC / "fd").iterdir()) - 1  # without the one of this reading
        except OSError:
            return
        yield Sample(metric_list.PROCESS_MEMORY.name, (), pages * resource.getpagesize())
        yield Sample(metric_list.PROCESS_FDS.name, (), descriptors)


def process_age() -> int:
    """Milliseconds since the start of this process; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError, AttributeError):
        # The second field is the name in parentheses, which may hold anything.
        fields = (
            Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        started = int(fields[START_TIME - 3]) / os.sysconf("SC_CLK_TCK")
        return max(0, round((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1_000))
    return 0
