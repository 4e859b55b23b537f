"""SIGUSR1 on real services: what the process and its worker processes are doing, without a disturbance."""

import json
import signal
from pathlib import Path
from typing import Any

import httpx

from tests.wire.processes.process import Process, serve

PARTS = {"process", "jobs", "calls", "store", "history", "tasks", "threads"}
SECRET = "hidden-in-a-body"


def lines(process: Process, *, many: int) -> list[dict[str, Any]]:
    """The lines of a report, once the last one of `many` processes is there."""
    process.wait_for_line('"part": "threads"', many=many)
    return [found for line in process.err if (found := json.loads(line))["event"] == "process_described"]


def described(process: Process) -> dict[str, dict[str, Any]]:
    """The first report, by part, in which the call of the job is open."""
    for many in range(1, 100):
        process.send(signal.SIGUSR1)
        found = {line["part"]: line for line in lines(process, many=many)}
        if any(one["open"] for one in found["calls"]["origins"].values()):
            break
    return found


def begin_job(url: str) -> None:
    """A job whose target holds its answer: the service's own port of long claims."""
    step = {
        "method": "POST",
        "url": f"{url}/queues/nobody/claim",
        "body": {"instanceId": "x", "max": 1, "waitSeconds": 20},
    }
    definition = {"jobName": SECRET, "creator": "1", "creatorName": "1", "timer": {"period": "external"}}
    made = httpx.post(f"{url}/jobs/held", json=definition | {"request": [step]})
    assert made.status_code == 201, made.text
    started = httpx.post(f"{url}/jobs/held/trigger", json={"given": SECRET})
    assert started.status_code == 200, started.text


def test_a_service_says_what_it_is_doing(tmp_path: Path) -> None:
    """A line for each part, with the call that is open by its origin, and no value of anybody."""
    with serve(tmp_path / "data", PUNCTUAL_SERVER__DRAIN_SECONDS="0") as process:
        url = process.wait_for_url()
        begin_job(url)
        found = described(process)
        assert found.keys() == PARTS
        assert found["process"]["pid"] == process.pid
        assert (found["jobs"]["held"], found["jobs"]["calls"]) >= (1, 1)
        assert list(found["calls"]["origins"]) == [url]
        assert found["calls"]["origins"][url]["open"] == 1
        assert "state-writer" in {one["name"] for one in found["threads"]["threads"]}
        assert SECRET not in str(found)
        assert httpx.get(f"{url}/health/ready").status_code == 200
        assert process.stop() == 0


def test_worker_processes_say_it_too(tmp_path: Path) -> None:
    """The signal goes to the service alone, which passes it on."""
    with serve(tmp_path / "data", "--workers", "2", PUNCTUAL_SERVER__DRAIN_SECONDS="0") as process:
        url = process.wait_for_url()
        process.send(signal.SIGUSR1)
        found = lines(process, many=2)
        assert {line["part"] for line in found if line.get("worker") == 1} == PARTS
        assert {line["part"] for line in found if "worker" not in line} == PARTS
        assert len({line["pid"] for line in found if line["part"] == "process"}) == 2
        assert httpx.get(f"{url}/health/ready").status_code == 200
        assert process.stop() == 0


def test_a_signal_during_the_start_ends_nothing(tmp_path: Path) -> None:
    """As soon as the first line is there; it is answered in time."""
    with serve(tmp_path / "data", "--workers", "2", PUNCTUAL_SERVER__DRAIN_SECONDS="0") as process:
        process.wait_for_line('"egress_set"')
        process.send(signal.SIGUSR1)
        process.wait_for_url()
        process.wait_for_line('"part": "threads"')
        assert process.stop() == 0
