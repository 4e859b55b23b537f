"""A cluster under measurement, as `./scripts/cluster` starts it, and what can be counted from outside."""

import contextlib
import os
import re
import signal
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scheduler_service.demo.child_programs import free_ports
from scripts.local_cluster import LocalCluster
from scripts.local_programs import DemoProgram, describe_missing, find_programs
from tests.bench.stage import Arrival, BareTarget, start_target
from tests.sidecar.stage import Stage

ARRAY = 250
TRIES = 10
REGISTERED = "dapr_scheduler_jobs_created_total"


class Bench:
    """A cluster that runs. `names` are its nodes."""

    def __init__(self, stage: Stage, target: BareTarget, names: Sequence[str], metrics: int) -> None:
        self.stage = stage
        self.target = target
        self.names = names
        self._metrics = metrics

    def ports(self) -> list[int]:
        """Where the API of each node listens."""
        return [self.stage.cluster.nodes[name].api for name in self.names]

    def create(self, definitions: Sequence[Mapping[str, Any]]) -> float:
        """Posts definitions in arrays, to all nodes at once; how many a second."""
        began = time.perf_counter()
        arrays = [definitions[at : at + ARRAY] for at in range(0, len(definitions), ARRAY)]
        with ThreadPoolExecutor(len(self.names)) as clients:
            list(clients.map(self._post, range(len(arrays)), arrays))
        return len(definitions) / (time.perf_counter() - began)

    def _post(self, number: int, array: Sequence[Mapping[str, Any]]) -> None:
        """Who is told that nothing was done for now asks again, as a client does."""
        left = list(array)
        for _ in range(TRIES):
            name = self.names[number % len(self.names)]
            status, answer = self.stage.call(name, "POST", "/jobs", left)
            assert status == 200, answer
            items = answer["data"]["items"]
            wrong = [one for one in items if one["status"] == "refused" and one["problem"]["status"] != 503]
            assert not wrong, wrong[:1]
            left = [job for job, one in zip(left, items, strict=True) if one["status"] == "refused"]
            if not left:
                return
        raise SystemExit(f"{len(left)} jobs could not be created: {items[-1]['problem']['detail']}")

    def await_arrivals(self, count: int, seconds: float, *, after: float = 0) -> list[Arrival]:
        """The arrivals when there are `count` or `seconds` are over, and `after` seconds more."""
        self.target.await_arrivals(count, seconds)
        time.sleep(after)
        return self.target.arrivals()

    def succeeded(self) -> int:
        """How many executions the history has as succeeded."""
        answer = self.stage.call(self.names[0], "GET", "/stats")[1]
        return int(answer["data"]["byState"].get("succeeded", 0))

    def registered(self) -> int:
        """How many reminders the scheduler service has taken since its start."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=10) as answer:
            return read_counter(answer.read().decode(), REGISTERED)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU of the nodes, of their sidecars, and of what they share."""
        cluster = self.stage.cluster
        return {
            "nodes": sum(map(cpu_of, cluster.apps.values())),
            "daprd": sum(map(cpu_of, cluster.sidecars.values())),
            **shared_cpu(cluster),
        }


@contextlib.contextmanager
def measured(*names: str) -> Iterator[Bench]:
    """A cluster of these nodes over a fresh folder, gone afterwards. Says what to install where it cannot."""
    programs = find_programs(os.environ)
    if missing := describe_missing(programs):
        raise SystemExit("\n".join(missing))
    end_orderly()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        target = start_target(stack)
        cluster = LocalCluster(folder=Path(folder), programs=programs)
        cluster.add_database()
        (metrics,) = free_ports(1)
        tell_metrics(cluster.scheduler, metrics)
        stage = Stage(cluster, target)
        try:
            stage.start(*names)
            yield Bench(stage, target, names, metrics)
        finally:
            cluster.stop()


def end_orderly() -> None:
    """SIGTERM, which `timeout` sends, ends the programs that this one has started, too."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def tell_metrics(part: DemoProgram, port: int) -> None:
    """Makes a program of Dapr tell its counters on `port`."""
    part.command.remove("--enable-metrics=false")
    part.command += ["--metrics-listen-address", "127.0.0.1", "--metrics-port", str(port)]


def read_counter(text: str, name: str) -> int:
    """The sum of a counter over all its labels; 0 where it was never counted."""
    lines = re.findall(rf"(?m)^{name}(?:\{{.*\}})? (\S+)$", text)
    return int(sum(map(float, lines)))


def each(spent: Mapping[str, float], before: Mapping[str, float], count: int) -> dict[str, float]:
    """CPU in ms for one of `count`."""
    return {f"{name}_cpu_ms": round((spent[name] - before[name]) / count * 1_000, 2) for name in spent}


def shared_cpu(cluster: LocalCluster) -> dict[str, float]:
    """Seconds of CPU of each program that all nodes share; `idle`: what the machine did not use."""
    spent = {part.name: sum(map(_seconds, _family(part.pid))) for part in cluster.shared()}
    return {**spent, "idle": _idle()}


def cpu_of(part: DemoProgram) -> float:
    """Seconds of CPU of a program that runs."""
    return _seconds(part.pid)


def _family(pid: int) -> list[int]:
    """A process and its children: a server of PostgreSQL has one for each connection."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def _seconds(pid: int) -> float:
    """With those of the children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _idle() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[4]) / os.sysconf("SC_CLK_TCK")
