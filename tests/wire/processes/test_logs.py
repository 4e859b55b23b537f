"""The log of a running service: every line of every process has one form, and tells what went wrong."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import free_port
from tests.wire.processes.process import PATIENCE, Process, serve

SECRET = "s3cret"
JOBS = 8


def lines(process: Process) -> list[dict[str, Any]]:
    """All that it has said on standard error, as values: a line that is no JSON fails here."""
    return [json.loads(line) for line in process.err]


def definition(job_id: str, port: str) -> dict[str, Any]:
    """A job whose target does not listen."""
    url = f"http://127.0.0.1:{port}/{SECRET}?token={SECRET}"
    step = {"url": url, "headers": {"authorization": SECRET}, "method": "POST", "body": {"a": SECRET}}
    return {"jobId": job_id, "jobName": job_id, "creator": "c", "creatorName": "c", "request": [step]}


def test_a_failed_execution_is_a_line_of_the_process_that_ran_it(tmp_path: Path) -> None:
    """Service and worker process alike, as JSON, with level and time, and nothing that is a secret."""
    port = str(free_port())
    jobs = [definition(f"job-{number}", port) for number in range(JOBS)]
    with serve(tmp_path / "data", "--workers", "2", PUNCTUAL_LOG__ACCESS="true") as process:
        with httpx.Client(base_url=process.wait_for_url(), timeout=30) as client:
            assert client.post("/jobs", json=jobs).is_success
            for job in jobs:
                assert client.post(f"/jobs/{job['jobId']}/trigger", json={}).is_success
        process.wait_for_line('"execution_failed"', many=JOBS)
        assert process.stop() == 0
    said = lines(process)
    assert all({"timestamp", "level", "event"} <= line.keys() for line in said)
    failed = [line for line in said if line["event"] == "execution_failed"]
    assert {line["jobId"] for line in failed} == {job["jobId"] for job in jobs}
    assert {line.get("worker") for line in failed} == {None, 1}
    assert {(line["level"], line["error"], line["step"], line["target"]) for line in failed} == {
        ("warning", "500", 0, f"127.0.0.1:{port}")
    }
    answered = [line["route"] for line in said if line["event"] == "request_answered"]
    assert answered == ["/jobs", *["/jobs/{jobId}/trigger"] * JOBS]
    assert SECRET not in "".join(process.err)


@pytest.mark.parametrize(
    ("level", "seen"), [("error", False), pytest.param("debug", True, marks=pytest.mark.long)]
)
def test_all_processes_obey_the_level(tmp_path: Path, level: str, seen: bool) -> None:
    """`listening` is of the level info, as are the first lines of worker processes."""
    options = ("--workers", "2", "--log-level", level, "--log-format", "text")
    with serve(tmp_path / "data", *options, "--port", port := str(free_port())) as process:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            wait_until_ready(client)
        if seen:
            process.wait_for_line(" listening ")  # after the first 200; never if it stops
        assert process.stop() == 0
    assert any(" listening " in line for line in process.err) == seen
    assert any("worker=1" in line for line in process.err) == seen
    assert not any(line.startswith("{") for line in process.err)


def wait_until_ready(client: httpx.Client) -> None:
    """Asks for as long as nobody answers."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if client.get("/health/ready").is_success:
                return
        except httpx.ConnectError:
            continue
    raise AssertionError("it is not ready")
