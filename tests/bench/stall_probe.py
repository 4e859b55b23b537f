"""A service whose loop ticks, its target, and a job that fires every 100 ms."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import uvloop

from scheduler_service.app.lifetime import serve
from scheduler_service.settings import load_settings
from scheduler_service.telemetry.logs import stderr_log
from tests.bench.stage import ROOT, Stage, listening, start_process
from tests.bench.stall_shares import Share, Threads

MIB = 1 << 20
TICK = 0.001
PERIOD = 0.1


class Ticks:
    """Ticks each millisecond; SIGUSR2 prints what the gaps since the last one were at most, and begins anew.

    Each figure of a `Share` is the largest of any gap; with the threads of the one that is longest by `ours`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = Threads()
        self._worst = Share()
        self._last = time.perf_counter()
        self._loop.add_signal_handler(signal.SIGUSR2, self._print)
        self._tick()

    def _tick(self) -> None:
        held = max(time.perf_counter() - self._last - TICK, 0.0) * 1000
        self._worst = self._worst.join(self._threads.share(held))
        self._last = time.perf_counter()
        self._loop.call_later(TICK, self._tick)

    def _print(self) -> None:
        print(json.dumps(self._worst._asdict()), flush=True)
        self._worst = Share()


async def run(options: Mapping[str, Any]) -> None:
    """The service with a ticking loop."""

    async def began(_: str) -> None:
        asyncio.get_running_loop().call_soon(Ticks)

    await serve(load_settings(options, dict(os.environ)), log=stderr_log(), began=began)


class Answers(BaseHTTPRequestHandler):
    """The target: each path answers with the JSON kept under it."""

    protocol_version = "HTTP/1.1"
    bodies: dict[str, bytes] = {}

    def do_POST(self) -> None:
        """One request."""
        left = int(self.headers.get("content-length", 0))
        while left:
            left -= len(self.rfile.read(min(left, MIB)))
        body = self.bodies.get(self.path, b"{}")
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


class Probe(Stage):
    """A service with ticks, its target, and the bystander's job, whose target is a process of its own.

    In that of the attacker it would be as late as what the attacker sends takes to be made.
    """

    witness = ""

    def tick(self) -> Share:
        """For how long the loop was held at the most since the last question."""
        assert self.service.stdout is not None
        self.service.send_signal(signal.SIGUSR2)
        return Share(**json.loads(self.service.stdout.readline()))

    def peak(self) -> float:
        """The most resident memory that the service has had since its start, in MiB."""
        lines = Path(f"/proc/{self.service.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024

    def lateness(self, since: float) -> list[float]:
        """The gaps between arrivals beyond the period, in ms, in order; `since` that moment (s)."""
        arrivals = httpx.get(f"{self.witness}/arrivals", timeout=60, trust_env=False).json()
        moments = [moment for _, _, moment in arrivals if moment >= since * 1000]
        return sorted(max(later - earlier - PERIOD * 1000, 0) for earlier, later in pairwise(moments))

    def define(self, job_id: str, **members: Any) -> httpx.Response:
        """Creates a job that waits."""
        return self.client.post(f"/jobs/{job_id}", json=definition(job_id, self.target, **members))

    def trigger(self, job_id: str, **params: Any) -> None:
        """Runs it once, to its end."""
        execution = self.client.post(f"/jobs/{job_id}/trigger", json=params).json()["data"]["executionId"]
        while self.client.get(f"/executions/{execution}").json().get("data", {}).get("endedAt") is None:
            time.sleep(0.05)


def definition(job_id: str, target: str, **members: Any) -> dict[str, Any]:
    """A job that waits to be triggered."""
    base = {"jobId": job_id, "jobName": "bench", "creator": "bench", "creatorName": "bench"}
    return base | {"request": [{"url": f"{target}/run"}]} | members


@contextlib.contextmanager
def probing(*options: str) -> Iterator[Probe]:
    """A service and its target, both gone afterwards; `options` as `name=value`."""
    target = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=target.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        witness = start_process(stack, ["-m", "tests.bench.target"], stdin=subprocess.PIPE)
        assert witness.stdout is not None
        given = dict(option.partition("=")[::2] for option in options)
        settings = {"store.data": folder, "server.port": 0, **given}
        command = [sys.executable, "-m", "tests.bench.stall_probe", json.dumps(settings)]
        service = subprocess.Popen(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            url = listening(service)
            drain = threading.Thread(target=lambda: [None for _ in service.stderr or ()], daemon=True)
            drain.start()
            probe = Probe(service, url, f"http://127.0.0.1:{target.server_port}", folder=Path(folder))
            probe.witness = f"http://127.0.0.1:{int(witness.stdout.readline())}"
            timer = {"dueTime": "0s", "period": "100ms"}
            request = [{"url": f"{probe.witness}/run"}]
            assert probe.define("bystander", timer=timer, request=request).is_success
            yield probe
        finally:
            service.kill()
            service.wait()
            target.shutdown()


if __name__ == "__main__":
    uvloop.run(run(json.loads(sys.argv[1])))
