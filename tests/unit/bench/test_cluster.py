"""What is counted on a cluster, without one."""

import os
import subprocess
import sys
from pathlib import Path

from scripts.local_cluster import LocalCluster
from tests.bench.cluster.herd import repeated
from tests.bench.cluster.stage import REGISTERED, read_counter, tell_metrics
from tests.bench.cluster.steady import by_firing, firings, spread
from tests.bench.stage import figures
from tests.unit.docs.pages import ROOT

METRICS = f"""# HELP {REGISTERED} The total number of jobs created.
# TYPE {REGISTERED} counter
{REGISTERED}{{app_id="scheduler",type="a"}} 40
{REGISTERED}{{app_id="scheduler",type="b"}} 2e+00
{REGISTERED}_other 7
"""


def test_a_counter_is_the_sum_over_its_labels() -> None:
    """Names that only begin alike do not count; one that is not there was never counted."""
    assert read_counter(METRICS, REGISTERED) == 42
    assert read_counter(METRICS, "dapr_scheduler_jobs_failed_total") == 0


def test_firings_of_a_schedule_are_told_apart() -> None:
    """Arrival and planned moment meet by the number of the execution, whichever comes first."""
    planned = firings(2, 1, 100, 2)
    assert planned == {"every-0-0": 100_000, "every-0-1": 101_000, "every-1-0": 100_500, "every-1-1": 101_500}
    seen = [("every-0", "a-uid-1-0", 100_003.0), ("every-1", "uid-1-0", 100_502.0)]
    seen += [("every-0", "a-uid-2-0", 101_001.0), ("every-0", "a-uid-3-0", 102_001.0)]
    found = figures(by_firing(seen), planned)
    assert (found["arrived"], found["lost"], found["doubled"], found["max_ms"]) == (3, 1, 0, 3.0)


def test_moments_are_spread_over_the_period() -> None:
    """To the ms, and written as definitions have them."""
    jobs = spread(3, 35, 1_700_000_000, "http://127.0.0.1:9", qos=1)
    assert [job["timer"]["dueTime"][-13:] for job in jobs] == [
        "22:13:20.000Z",
        "22:13:31.666Z",
        "22:13:43.333Z",
    ]
    assert {(job["timer"]["period"], job["qos"]) for job in jobs} == {("35s", 1)}


def test_a_request_that_comes_again_is_counted() -> None:
    """By its Idempotency-Key."""
    assert repeated([("a", "a-1-0", 1.0), ("b", "b-1-0", 1.0), ("a", "a-1-0", 2.0)]) == 1


def test_the_scheduler_service_tells_what_it_took(tmp_path: Path) -> None:
    """On loopback alone, in place of no metrics."""
    programs = {name: f"/bin/{name}" for name in ("redis-server", "placement", "scheduler", "daprd")}
    part = LocalCluster(folder=tmp_path, programs=programs).scheduler
    tell_metrics(part, 9_999)
    assert "--enable-metrics=false" not in part.command
    assert part.command[-4:] == ["--metrics-listen-address", "127.0.0.1", "--metrics-port", "9999"]


def test_without_the_programs_it_is_said_what_to_install(tmp_path: Path) -> None:
    """Each command names them, and starts nothing."""
    environ = os.environ | {"PATH": str(tmp_path), "HOME": str(tmp_path), "PUNCTUAL_DAPR_BIN": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.cluster.herd"],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    for program in ("redis-server", "placement", "scheduler", "daprd"):
        assert f"{program} is missing: " in ended.stderr
