"""Calls are counted by the class of their status, or by why no answer came; how old a process is."""

import subprocess
import sys
import time

from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.process_metrics import CallMetrics, process_age
from tests.unit.telemetry.metrics.batches import buckets, value


def test_each_outcome_is_counted() -> None:
    """Also those that took long."""
    metrics = CallMetrics()
    for outcome in (Answer(204, elapsed=3), Answer(503, elapsed=4_000), Fault(FaultKind.EGRESS, "no", 1)):
        metrics.count(outcome)
    found = list(metrics.samples())
    counts = {one.labels[0]: one.value for one in found if one.family == metric_list.CALLS.name}
    assert {name for name, count in counts.items() if count} == {"2xx", "5xx", "egress"}
    assert buckets(found, metric_list.CALL_DURATION) == {0.002: 1, 0.005: 1, 5: 1}
    assert value(found, metric_list.CALL_DURATION) == 4.004


CHILD = "from scheduler_service.telemetry.metrics.process_metrics import process_age; print(process_age())"


def test_the_age_is_that_of_the_process() -> None:
    """It grows as time does, and one that was started later is younger."""
    began, before = time.monotonic(), process_age()
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    after = process_age()
    passed = (time.monotonic() - began) * 1_000
    assert 0 < before <= after <= before + passed + 100
    assert 0 < int(child.stdout) < passed + 100
