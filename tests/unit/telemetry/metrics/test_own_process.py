"""How long a process has been running, as the kernel counts it (SPEC section 14)."""

import subprocess
import sys
import time

from scheduler_service.telemetry.metrics.own_process import process_age

CHILD = "from scheduler_service.telemetry.metrics.own_process import process_age; print(process_age())"


def test_the_age_is_that_of_the_process() -> None:
    """It grows as time does, and one that was started later is younger."""
    began, before = time.monotonic(), process_age()
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    after = process_age()
    passed = (time.monotonic() - began) * 1_000
    assert 0 < before <= after <= before + passed + 100
    assert 0 < int(child.stdout) < passed + 100
