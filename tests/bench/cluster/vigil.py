"""What daprd sees of the nodes while they work: its health check from beside it, and its own metadata."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx

from tests.bench.cluster.stage import MISSED, UNHEALTHY, Bench

PAUSE = 0.1
PROBE_LIMIT = 0.5
"""What daprd itself is given: `--app-health-probe-timeout`."""


class Vigil:
    """Looks at each node ten times a second, in a thread for each."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._before = (bench.said(UNHEALTHY), bench.said(MISSED))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._watch, args=(name,)) for name in bench.names]
        self.slowest = 0.0
        self.looks = self.missed = self.unready = 0

    def start(self) -> None:
        """Begins to look."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Looks no more."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def figures(self) -> dict[str, Any]:
        """Probes like daprd's own, and how often daprd said that a node is unhealthy."""
        unhealthy, missed = (self._bench.said(word) for word in (UNHEALTHY, MISSED))
        return {
            "probes": self.looks,
            "slowest_probe_ms": round(self.slowest * 1_000),
            "probes_over_500_ms": self.missed,
            "daprd_missed_probes": missed - self._before[1],
            "daprd_said_unhealthy": unhealthy - self._before[0],
            "actors_not_ready": self.unready,
        }

    def _watch(self, name: str) -> None:
        ports = self._bench.stage.cluster.nodes[name]
        with httpx.Client(timeout=5, trust_env=False) as client:
            while not self._over.wait(PAUSE):
                self._probe(client, f"http://127.0.0.1:{ports.app}/healthz")
                self._ask(client, f"http://127.0.0.1:{ports.http}/v1.0/metadata")

    def _probe(self, client: httpx.Client, url: str) -> None:
        began = time.perf_counter()
        with contextlib.suppress(httpx.HTTPError):
            is_well = client.get(url).status_code == httpx.codes.OK
            taken = time.perf_counter() - began
            self.slowest = max(self.slowest, taken)
            self.missed += not is_well or taken > PROBE_LIMIT
            self.looks += 1
            return
        self.missed += 1

    def _ask(self, client: httpx.Client, url: str) -> None:
        with contextlib.suppress(httpx.HTTPError):
            actors = client.get(url).json()["actorRuntime"]
            self.unready += not actors.get("hostReady")


@contextlib.contextmanager
def watched(bench: Bench) -> Iterator[Vigil]:
    """Looks from the beginning to the end of what is done inside."""
    vigil = Vigil(bench)
    vigil.start()
    try:
        yield vigil
    finally:
        vigil.stop()
