"""Calls are counted by the class of their status, or by why no answer came."""

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, NotSent, always
from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.calls import CallMetrics, MeasuredSender
from tests.unit.telemetry.metrics.batches import buckets, value

pytestmark = pytest.mark.anyio

REQUEST = OutboundRequest("GET", "http://127.0.0.1:9/", ())


class Sender:
    """Gives what it is told to."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self._outcomes = list(outcomes)
        self.is_closed = False

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The next one."""
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Notes it."""
        self.is_closed = True


async def test_each_outcome_is_counted_and_passed_on() -> None:
    """Also those that took long."""
    outcomes = (Answer(204, elapsed=3), Answer(503, elapsed=4_000), Fault(FaultKind.EGRESS, "no", 1))
    metrics = CallMetrics()
    sender = MeasuredSender(sender=Sender(*outcomes), metrics=metrics)
    for outcome in outcomes:
        assert await sender.send(REQUEST) is outcome
    found = list(metrics.samples())
    counts = {one.labels[0]: one.value for one in found if one.family == families.CALLS.name}
    assert {name for name, count in counts.items() if count} == {"2xx", "5xx", "egress"}
    assert buckets(found, families.CALL_DURATION) == {0.002: 1, 0.005: 1, 5: 1}
    assert value(found, families.CALL_DURATION) == 4.004


async def test_what_did_not_leave_is_no_call() -> None:
    """And what is raised is passed on; so is the end."""
    metrics, behind = CallMetrics(), Sender(NotSent())
    sender = MeasuredSender(sender=behind, metrics=metrics)
    with pytest.raises(NotSent):
        await sender.send(REQUEST)
    assert buckets(list(metrics.samples()), families.CALL_DURATION) == {}
    await sender.close()
    assert behind.is_closed
