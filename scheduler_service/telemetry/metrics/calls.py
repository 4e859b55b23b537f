"""Counts the requests that go out, and how long each took."""

from collections import Counter
from collections.abc import Iterator

from scheduler_service.domain.wire import Answer, Fault, FaultKind, Outcome
from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.samples import SHORT_MS, Milliseconds, Sample

_CLASSES = 10
_USUAL = range(2, 6)


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
