"""Who works on what is durable: after `kill -9` a lost instance ends its work (SPEC sections 8, 13)."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar

import httpx
import pytest

from tests.wire.processes.process import serve

FIRST = {"PUNCTUAL_SERVICES__LOST_AFTER_SECONDS": "600"}
SECOND = {"PUNCTUAL_SERVICES__OFFLINE_SECONDS": "1", "PUNCTUAL_SERVICES__LOST_AFTER_SECONDS": "1"}
"""In the first life nothing is lost, however slow the machine is; in the second the instance is missing."""
PATIENCE = 30.0
JOBS = {f"job-{number}" for number in range(6)}


class Worker(BaseHTTPRequestHandler):
    """Takes everything in hand and reports nothing; what is checked or notified of is put into `heard`."""

    protocol_version = "HTTP/1.1"
    heard: ClassVar[SimpleQueue[str]]

    def do_POST(self) -> None:
        """Accepts work and notifications."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(202, b"")

    def do_GET(self) -> None:
        """Says to a check that the work runs."""
        self._answer(200, b'{"status": ""}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.heard.put(self.path)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def worker() -> Iterator[tuple[str, SimpleQueue[str]]]:
    """The address of an instance, and the paths at which it was called."""
    heard: SimpleQueue[str] = SimpleQueue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Hearing", (Worker,), {"heard": heard}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def wait_for_all(heard: "SimpleQueue[str]", path: str) -> None:
    """Returns when `path` was called for every job."""
    missing = {f"{path}{job_id}" for job_id in JOBS}
    while missing:
        missing.discard(heard.get(timeout=PATIENCE))


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_lost_instance_ends_its_work_after_a_crash(workers: str, tmp_path: Path) -> None:
    """Killed while instances work, started again without them: each execution ends as `instance_lost`."""
    further = ["--workers", workers]
    steps = {"request": [{"url": "service://shop/run"}], "async": True, "timeoutSeconds": 600, "qos": 1}
    job = {"jobName": "j", "creator": "1", "creatorName": "one", "timer": {"period": "external"}} | steps
    with worker() as (address, heard):
        with serve(tmp_path / "data", *further, **FIRST) as process:
            with httpx.Client(base_url=process.wait_for_url(), trust_env=False, timeout=30) as client:
                client.put("/services/shop/instances/a", json={"address": address}).raise_for_status()
                for job_id in JOBS:
                    told = {
                        "notification": [
                            {"url": f"{address}/ended/{job_id}", "stateEquals": ["finalFailed"]}
                        ],
                        "checkUrl": f"{address}/check/{job_id}",
                        "checkRateSeconds": 0.2,
                    }
                    client.post(f"/jobs/{job_id}", json=job | told).raise_for_status()
                    client.post(f"/jobs/{job_id}/trigger").raise_for_status()
                # Before the first check is sent, it is durable that the instance has taken the work.
                wait_for_all(heard, "/check/")
            process.send(signal.SIGKILL)
        with serve(tmp_path / "data", *further, **SECOND) as process:
            with httpx.Client(base_url=process.wait_for_url(), trust_env=False, timeout=30) as client:
                wait_for_all(heard, "/ended/")
                answer = client.get("/executions", params={"state": "terminated"}).json()
            process.wait_for_line('"instance_lost"')
            lines = [line for line in (*process.out, *process.err) if '"event": "instance_lost"' in line]
    assert len(answer["data"]["items"]) == len(JOBS)
    assert {one["error"] for one in answer["data"]["items"]} == {"instance_lost"}
    assert len(lines) == 1
