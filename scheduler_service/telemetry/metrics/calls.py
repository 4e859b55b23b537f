"""Counts the requests that go out, and how long each took."""

from collections import Counter
from collections.abc import Iterator

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.samples import SHORT_MS, Milliseconds, Sample

_CLASSES = 10
_USUAL = range(2, 6)


class CallMetrics:
    """The figures of all calls of a process: steps, checks and notifications alike."""

    def __init__(self) -> None:
        self.statuses = [0] * _CLASSES
        self.faults = Counter({kind.value: 0 for kind in FaultKind})
        self.durations = Milliseconds(families.CALL_DURATION)

    def samples(self) -> Iterator[Sample]:
        """All figures so far."""
        for digit, count in enumerate(self.statuses):
            if count or digit in _USUAL:
                yield Sample(families.CALLS.name, (f"{digit}xx",), count)
        for kind, count in self.faults.items():
            yield Sample(families.CALLS.name, (kind,), count)
        yield self.durations.sample()


class MeasuredSender:
    """A sender whose calls are counted (`ports.sending.Sender`)."""

    def __init__(self, *, sender: Sender, metrics: CallMetrics) -> None:
        self._send = sender.send
        self._metrics = metrics
        self._statuses = metrics.statuses
        self._short = metrics.durations.short
        self.close = sender.close

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """What the sender behind it returns or raises; a request that did not leave is not counted."""
        outcome = await self._send(request, may_go)
        if type(outcome) is Answer:
            self._statuses[outcome.status // 100 % _CLASSES] += 1
        else:
            self._count_fault(outcome)
        if outcome.elapsed < SHORT_MS:
            self._short[outcome.elapsed] += 1
        else:
            self._metrics.durations.observe(outcome.elapsed)
        return outcome

    def _count_fault(self, outcome: Outcome) -> None:
        if isinstance(outcome, Fault):
            self._metrics.faults[outcome.kind.value] += 1
