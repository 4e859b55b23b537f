"""What the benchmarks share: a service and a target as processes, and figures from arrivals."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from scheduler_service.domain.moments import rfc3339

ROOT = Path(__file__).resolve().parents[2]
TARGET = ("-m", "tests.bench.target")
KEY = "a-key-that-is-for-benches-alone"
TENANTS = "--two-tenants"
"""No option of `serve`: callers have keys, and jobs are half those of one tenant, half those of another."""


Arrival = tuple[str, str, float]
"""jobId, Idempotency-Key and wall ms of a request to the target."""


class BareTarget:
    """`tests.bench.target`, whose process is given: takes a herd without being late itself."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.pid = process.pid
        self.base = f"http://127.0.0.1:{int(process.stdout.readline())}"
        self.url = f"{self.base}/run"
        self._client = httpx.Client(base_url=self.base, timeout=60, trust_env=False)

    def count(self) -> int:
        """How many requests came."""
        return int(self._client.get("/count").json())

    def arrivals(self) -> list[Arrival]:
        """Each of them, in order."""
        return [(job, key, at) for job, key, at in self._client.get("/arrivals").json()]

    def await_arrivals(self, count: int, seconds: float) -> list[Arrival]:
        """The arrivals when there are `count`, or when `seconds` are over.

        Until then only their number is asked for: to list thousands would keep the target from the calls.
        """
        deadline = time.monotonic() + seconds
        while self.count() < count and time.monotonic() < deadline:
            time.sleep(0.5)
        return self.arrivals()


class Stage:
    """A running service and its target; one that `stage` made has a folder, and can be started again."""

    keys: tuple[str, ...] = ()
    """What callers of each tenant show as `Authorization`; empty: none needs a key."""
    bare: BareTarget
    """The target, where `stage` made it."""

    def __init__(
        self,
        service: subprocess.Popen[str],
        url: str,
        target: str,
        *,
        folder: Path | None = None,
        start: Callable[[], subprocess.Popen[str]] | None = None,
    ) -> None:
        self.target = target
        self.folder = folder
        self._start = start
        self._attach(service, url)

    def _attach(self, service: subprocess.Popen[str], url: str) -> None:
        self.service = service
        self.port = int(url.rpartition(":")[2])
        self.client = httpx.Client(base_url=url, timeout=120, trust_env=False)

    def restart(self, meanwhile: Callable[[], object] = lambda: None) -> float:
        """Kills it (SIGKILL), waits for `meanwhile`, starts it again; the seconds until it listens."""
        self.service.kill()
        self.service.wait()
        meanwhile()
        assert self._start is not None
        began = time.time()
        service = self._start()
        self._attach(service, listening(service))
        return time.time() - began

    def create(self, definitions: Sequence[Mapping[str, Any]]) -> float:
        """Posts definitions in arrays of a thousand; how many a second."""
        began = time.perf_counter()
        for start in range(0, len(definitions), 1000):
            if self.keys:
                self.client.headers["authorization"] = self.keys[start // 1000 % 2]
            answer = self.client.post("/jobs", json=definitions[start : start + 1000])
            answer.raise_for_status()
            wrong = [item for item in answer.json()["data"]["items"] if item["status"] != "created"]
            assert not wrong, wrong[:1]
        return len(definitions) / (time.perf_counter() - began)

    def divide(self, *tenants: str) -> None:
        """From now on callers have keys, those of the first of these tenants, or of them in turn."""
        self.client.headers["authorization"] = f"Bearer {KEY}"
        texts = []
        for name in ("default", *tenants):  # the first key has to be that of an admin of `default`
            answer = self.client.post("/keys", json={"name": name, "tenant": name, "role": "admin"})
            answer.raise_for_status()
            texts.append(f"Bearer {answer.json()['data']['key']}")
        self.keys = tuple(texts[1:])
        self.client.headers["authorization"] = self.keys[0]

    def settle(self) -> None:
        """Lets the start come to rest: the system jobs have run once."""
        self.client.get("/jobs").raise_for_status()
        time.sleep(1)

    def await_ready(self, seconds: float = 180) -> float:
        """When `/health/ready` answers 200 (s since the epoch)."""
        deadline = time.monotonic() + seconds
        while self.client.get("/health/ready").status_code != 200 and time.monotonic() < deadline:
            time.sleep(0.01)
        return time.time()

    def arrivals(self) -> list[Arrival]:
        """Who came to the target when."""
        return self.bare.arrivals()

    def await_arrivals(self, count: int, seconds: float) -> list[Arrival]:
        """The arrivals when there are `count`, or when `seconds` are over."""
        return self.bare.await_arrivals(count, seconds)

    def memory(self) -> float:
        """Resident memory of the service, its worker processes included, in MiB."""
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self._processes()]
        return sum(pages) * 4096 / (1 << 20)

    def disk(self) -> float:
        """What its data folder holds, in MiB."""
        assert self.folder is not None
        return sum(file.stat().st_size for file in self.folder.iterdir()) / (1 << 20)

    def cpu(self) -> float:
        """Seconds of CPU that the service has used, its worker processes included."""
        stats = (Path(f"/proc/{pid}/stat").read_text() for pid in self._processes())
        fields = [stat.rsplit(")", 1)[1].split() for stat in stats]
        return sum(int(one[11]) + int(one[12]) for one in fields) / 100

    def _processes(self) -> list[int]:
        pid = self.service.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


@contextlib.contextmanager
def stage(*options: str, kept: Path | None = None) -> Iterator[Stage]:
    """A service and a target, gone afterwards, over a fresh folder, gone too, or over the folder `kept`."""
    with contextlib.ExitStack() as stack:
        folder = str(kept) if kept else stack.enter_context(tempfile.TemporaryDirectory())
        target = start_target(stack)
        given = [option for option in options if option != TENANTS]
        command = ["-m", "scheduler_service", "serve", "--port", "0", "--data", folder, *given]
        if TENANTS in options:
            os.environ["PUNCTUAL_SERVER__KEY"] = KEY

        def start() -> subprocess.Popen[str]:
            return start_process(stack, command, stderr=subprocess.PIPE)

        service = start()
        on = Stage(service, listening(service), target.base, folder=Path(folder), start=start)
        on.bare = target
        if TENANTS in options:
            on.divide("one", "two")
        yield on


def figures(arrivals: Sequence[Arrival], planned: Mapping[str, float]) -> dict[str, Any]:
    """Lost, doubled, early, and the lateness in ms, of one firing a job; `planned` are their moments."""
    seen = Counter(job for job, _, _ in arrivals)
    late = sorted(moment - planned[job] for job, _, moment in arrivals if job in planned)
    return {
        "arrived": len(late),
        "lost": len(planned.keys() - seen.keys()),
        "doubled": sum(count > 1 for job, count in seen.items() if job in planned),
        "early": sum(one < -0.5 for one in late),
        "p50_ms": round(late[len(late) // 2], 2) if late else None,
        "p99_ms": round(late[len(late) * 99 // 100], 2) if late else None,
        "max_ms": round(late[-1], 2) if late else None,
    }


def one_shot(job_id: str, moment: float, target: str, qos: int) -> dict[str, Any]:
    """A job with one POST at `moment` (s since the epoch), to the ms."""
    return {
        "jobId": job_id,
        "jobName": "bench",
        "creator": "bench",
        "creatorName": "bench",
        "qos": qos,
        "timer": {"dueTime": rfc3339(round(moment * 1_000)), "period": "0s"},
        "request": [{"url": f"{target}/run", "body": {"n": 1}}],
    }


def one_shots(
    name: str, count: int, rate: int, first: float, target: str, qos: int = 0
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Jobs that are due one after the other, `rate` a second from `first` on; their moments (wall, ms)."""
    moments = {f"{name}-{n}": first + n * 1_000 // rate / 1_000 for n in range(count)}
    jobs = [one_shot(job_id, moment, target, qos) for job_id, moment in moments.items()]
    return jobs, {job_id: float(round(moment * 1_000)) for job_id, moment in moments.items()}


def show(title: str, values: Mapping[str, Any]) -> None:
    """Prints a line of figures."""
    print(f"{title}: " + ", ".join(f"{name} {value}" for name, value in values.items()), flush=True)


def start_process(
    stack: contextlib.ExitStack, command: Sequence[str], **streams: Any
) -> subprocess.Popen[str]:
    """A program of the checkout with its output in text; it ends with `stack`."""
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, text=True, stdout=subprocess.PIPE, **streams
    )
    stack.callback(_end, process)
    return process


def start_target(stack: contextlib.ExitStack) -> BareTarget:
    """A target, gone with `stack`."""
    return BareTarget(start_process(stack, TARGET, stdin=subprocess.PIPE))


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def listening(service: subprocess.Popen[str]) -> str:
    """The address of a service that was started with its standard error as a pipe."""
    assert service.stderr is not None
    for line in service.stderr:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if found.get("event") == "listening":
                return str(found["url"])
    raise SystemExit("the service did not start")
