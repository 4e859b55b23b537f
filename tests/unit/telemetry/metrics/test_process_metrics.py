"""Calls are counted by the class of their status, or by why no answer came."""

from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.process_metrics import CallMetrics
from tests.unit.telemetry.metrics.batches import buckets, value


def test_each_outcome_is_counted() -> None:
    """Also those that took long."""
    metrics = CallMetrics()
    for outcome in (Answer(204, elapsed=3), Answer(503, elapsed=4_000), Fault(FaultKind.EGRESS, "no", 1)):
        metrics.count(outcome)
    found = list(metrics.samples())
    counts = {one.labels[0]: one.value for one in found if one.family == families.CALLS.name}
    assert {name for name, count in counts.items() if count} == {"2xx", "5xx", "egress"}
    assert buckets(found, families.CALL_DURATION) == {0.002: 1, 0.005: 1, 5: 1}
    assert value(found, families.CALL_DURATION) == 4.004


def test_a_clock_that_was_set_back_gives_no_negative_duration() -> None:
    """It is none, and the longest stay as they are."""
    metrics = CallMetrics()
    metrics.count(Answer(200, elapsed=-7))
    assert buckets(list(metrics.samples()), families.CALL_DURATION) == {0.002: 1}
