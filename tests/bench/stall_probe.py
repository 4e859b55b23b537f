"""A service whose loop ticks, and a job that fires every 100 ms.

Of each gap between ticks it is told whose doing it was that the thread did not go on: its own, that of others
in its process, or the kernel.
"""

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
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from scheduler_service.app.lifetime import serve
from scheduler_service.settings import load_settings
from scheduler_service.telemetry.logs import stderr_log
from tests.bench.stage import Stage, listening, start_process, start_target

TICK = 0.001
PERIOD = 0.1
MS = 1_000_000
TASKS = Path("/proc/self/task")
LOOKS = 100
"""After so many readings it is looked which threads there are."""


class Share(NamedTuple):
    """What became of a gap, in ms.

    `ours`: what is left of it without the time that the kernel had the thread wait for a processor, and
    without that in which it had another thread wait meanwhile, as far as this one waited for it. `most` is
    the same without the second: that thread may not have been the one waited for. `busy`: at work itself.
    """

    held: float = 0.0
    busy: float = 0.0
    ours: float = 0.0
    most: float = 0.0
    threads: str = ""

    def join(self, other: "Share") -> "Share":
        """The larger of each figure, and the threads of the one with more of `ours`."""
        worse = self if self.ours >= other.ours else other
        figures = (max(pair) for pair in zip(self[:4], other[:4], strict=True))
        return Share(*figures, worse.threads)


class Threads:
    """The threads of this process, as the one that made this sees them; read between its own steps."""

    def __init__(self) -> None:
        self._own = threading.get_native_id()
        self._files: dict[int, int] = {}
        self._reads = 0
        self._last: dict[int, tuple[int, int]] = {}
        self.read()

    def read(self) -> dict[int, tuple[int, int]]:
        """For each thread how long it ran, and waited for a processor, since the last reading, in ns."""
        if self._reads % LOOKS == 0:
            self._look()
        self._reads += 1
        now = dict(self._figures())
        last, self._last = self._last, now
        return {
            tid: (run - last[tid][0], wait - last[tid][1]) for tid, (run, wait) in now.items() if tid in last
        }

    def share(self, held: float) -> Share:
        """Of a gap of `held` ms since the last reading."""
        read = self.read()
        busy, delayed = (value / MS for value in read.pop(self._own))
        others = max((wait / MS for _, wait in read.values()), default=0.0)
        most = max(held - delayed, 0.0)
        waited = max(most - busy, 0.0)
        return Share(held, busy, most - min(waited, others), most, self._names(read) if held > 5 else "")

    def _names(self, read: dict[int, tuple[int, int]]) -> str:
        found = sorted(read.items(), key=lambda item: -item[1][0])[:3]
        return ", ".join(f"{self._name(tid)} {run / MS:.1f}+{wait / MS:.1f}" for tid, (run, wait) in found)

    def _name(self, tid: int) -> str:
        return next((one.name for one in threading.enumerate() if one.native_id == tid), str(tid))

    def _look(self) -> None:
        there = {int(path.name) for path in TASKS.iterdir()}
        for tid in self._files.keys() - there:
            os.close(self._files.pop(tid))
        for tid in there - self._files.keys():
            with contextlib.suppress(OSError):
                self._files[tid] = os.open(TASKS / str(tid) / "schedstat", os.O_RDONLY)

    def _figures(self) -> Iterator[tuple[int, tuple[int, int]]]:
        for tid, file in self._files.items():
            with contextlib.suppress(OSError):
                run, wait, _ = os.pread(file, 64, 0).split()
                yield tid, (int(run), int(wait))


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


class Probe(Stage):
    """A service with ticks, and the bystander's job, whose target is a process of its own."""

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
        moments = [moment for _, _, moment in self.arrivals() if moment >= since * 1000]
        return sorted(max(later - earlier - PERIOD * 1000, 0) for earlier, later in pairwise(moments))


def definition(job_id: str, url: str, body: Any = None, **members: Any) -> dict[str, Any]:
    """A job that waits to be triggered."""
    base = {"jobId": job_id, "jobName": "bench", "creator": "bench", "creatorName": "bench"}
    return base | {"request": [{"url": url, "body": body}]} | members


@contextlib.contextmanager
def probing(*options: str) -> Iterator[Probe]:
    """A service with its bystander, gone afterwards; `options` as `name=value`."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        target = start_target(stack)
        given = dict(option.partition("=")[::2] for option in options)
        settings = {"store.data": folder, "server.port": 0, **given}
        command = ["-m", "tests.bench.stall_probe", json.dumps(settings)]
        service = start_process(stack, command, stderr=subprocess.PIPE)
        probe = Probe(service, listening(service), target.base, folder=Path(folder))
        probe.bare = target
        threading.Thread(target=lambda: [None for _ in service.stderr or ()], daemon=True).start()
        timer = {"dueTime": "0s", "period": "100ms"}
        bystander = definition("bystander", target.url, timer=timer)
        probe.client.post("/jobs/bystander", json=bystander).raise_for_status()
        yield probe


if __name__ == "__main__":
    uvloop.run(run(json.loads(sys.argv[1])))
