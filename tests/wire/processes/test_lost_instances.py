"""Who works on what is durable: after `kill -9` a lost instance ends its work (SPEC sections 8, 13)."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import httpx
import pytest

from tests.redis_server import SYNCING, RedisServer
from tests.wire.processes.process import serve

SETTINGS = {
    "PUNCTUAL_SERVICES__HEARTBEAT_SECONDS": "0.5",
    "PUNCTUAL_SERVICES__OFFLINE_SECONDS": "1",
    "PUNCTUAL_SERVICES__LOST_AFTER_SECONDS": "1",
}
PATIENCE = 30.0
JOBS = [f"job-{number}" for number in range(6)]


class Worker(BaseHTTPRequestHandler):
    """Takes everything in hand and reports nothing; notifications are put into `told`."""

    protocol_version = "HTTP/1.1"
    told: ClassVar[SimpleQueue[str]]

    def do_POST(self) -> None:
        """Accepts work."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if self.path.startswith("/ended/"):
            self.told.put(self.path.removeprefix("/ended/"))

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def worker() -> Iterator[tuple[str, SimpleQueue[str]]]:
    """The address of an instance, and the jobs of whose ends it was notified."""
    told: SimpleQueue[str] = SimpleQueue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Notified", (Worker,), {"told": told}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def redis(kind: str, folder: Path) -> Iterator[list[str]]:
    """The arguments that choose the store."""
    if kind != "redis":
        yield []
        return
    server = RedisServer(folder, *SYNCING).start()
    try:
        yield ["--store", server.url]
    finally:
        server.kill()


def executions(client: httpx.Client, **filters: str) -> list[dict[str, Any]]:
    """Those of the history."""
    found: list[dict[str, Any]] = client.get("/executions", params=filters).json()["data"]["items"]
    return found


def wait_for(client: httpx.Client, count: int, **filters: str) -> list[dict[str, Any]]:
    """The executions that match, once there are so many."""
    end = time.monotonic() + PATIENCE
    while len(found := executions(client, **filters)) < count:
        assert time.monotonic() < end, executions(client)
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(("store", "workers"), [("sqlite", "1"), ("sqlite", "3"), ("redis", "1")])
def test_a_lost_instance_ends_its_work_after_a_crash(store: str, workers: str, tmp_path: Path) -> None:
    """Killed while instances work, started again without them: each execution ends as `instance_lost`."""
    further = ["--workers", workers]
    steps = {"request": [{"url": "service://shop/run"}], "async": True, "timeoutSeconds": 600, "qos": 1}
    job = {"jobName": "j", "creator": "1", "creatorName": "one", "timer": {"period": "external"}} | steps
    with worker() as (address, told), redis(store, tmp_path / "redis") as chosen:
        with serve(tmp_path / "data", *further, *chosen, **SETTINGS) as process:
            with httpx.Client(base_url=process.wait_for_url(), trust_env=False, timeout=30) as client:
                client.put("/services/shop/instances/a", json={"address": address}).raise_for_status()
                for job_id in JOBS:
                    notified = {"url": f"{address}/ended/{job_id}", "stateEquals": ["finalFailed"]}
                    client.post(f"/jobs/{job_id}", json=job | {"notification": [notified]}).raise_for_status()
                    client.post(f"/jobs/{job_id}/trigger").raise_for_status()
                ids = [one["executionId"] for one in wait_for(client, len(JOBS), state="processing")]
                for execution in ids:
                    while not client.get(f"/executions/{execution}").json()["data"]["attempts"][0]["steps"]:
                        time.sleep(0.02)
            process.send(signal.SIGKILL)
        with serve(tmp_path / "data", *further, *chosen, **SETTINGS) as process:
            with httpx.Client(base_url=process.wait_for_url(), trust_env=False, timeout=30) as client:
                ends = {told.get(timeout=PATIENCE) for _ in JOBS}
                ended = executions(client, state="terminated")
            process.wait_for_line('"instance_lost"')
            lines = [line for line in (*process.out, *process.err) if '"instance_lost"' in line]
    assert ends == set(JOBS)
    assert len(ended) == len(JOBS)
    assert {one["error"] for one in ended} == {"instance_lost"}
    assert len(lines) == 1
