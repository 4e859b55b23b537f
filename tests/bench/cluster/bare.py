"""Bare actors, not jobs: `python -m tests.bench.cluster.bare [count] [grpc|http] [again|once|twice]`.

The same daprd, nodes, Redis and scheduler service as in `tests.bench.cluster.herd`, and what a user of the
SDK writes: a creation saves a state and registers a reminder, each firing does the same (`again`), or saves
its state alone, `once` or, as an execution of Punctual, `twice`.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import uvloop

from scheduler_service.demo.child_programs import free_ports
from scheduler_service.transport.sidecar_exchanges import KeptConnections
from scripts.local_cluster import LocalCluster, NodePorts
from scripts.local_programs import DemoProgram, describe_missing, find_programs, listens
from tests.bench.cluster.stage import cpu_of, each, end_orderly, shared_cpu
from tests.bench.stage import figures, show

APP_ID = KIND = "BareActor"
AT_ONCE = 32
"""Creations under way at each node."""
PAUSE = 5
PATIENCE = 60.0


class BareNode:
    """An application of bare actors and its daprd."""

    def __init__(self, cluster: LocalCluster, name: str, kind: Sequence[str]) -> None:
        self.ports = NodePorts(*free_ports(5))
        command = [sys.executable, "-m", "tests.bench.cluster.bare_actor", str(self.ports.app), *kind]
        environ = {"DAPR_HTTP_PORT": str(self.ports.http), "DAPR_GRPC_PORT": str(self.ports.grpc)}
        up = listens(self.ports.app)
        self.cluster = cluster
        self.app = DemoProgram(name, command, folder=cluster.folder, is_up=up, environ=environ)
        self.sidecar = cluster.sidecar(f"daprd-{name}", APP_ID, self.ports)

    def get(self, path: str) -> Any:
        """What the application says."""
        return httpx.get(f"http://127.0.0.1:{self.ports.app}{path}", timeout=60, trust_env=False).json()


def main(count: int = 5_000, client: str = "grpc", next_one: str = "again") -> None:
    """Prints creations and executions a second, lateness, and the CPU of all."""
    with bare_nodes(client, next_one) as nodes:
        moment = int(time.time()) + PAUSE + count // 150
        names = [f"bare-{number}" for number in range(count)]
        before = cpu(nodes)
        began = time.perf_counter()
        uvloop.run(create(nodes, names, moment))
        rate = count / (time.perf_counter() - began)
        created = each(cpu(nodes), before, count)
        if time.time() > moment - 1:
            raise SystemExit(f"only {rate:.0f} a second were created: too slow for their moment")
        time.sleep(moment - 1 - time.time())
        before = cpu(nodes)
        arrivals = await_arrivals(nodes, count)
        spent = each(cpu(nodes), before, count)
        title = f"herd of {count} bare actors over {client}, {next_one}, two nodes"
        last = max(when for _, _, when in arrivals) / 1_000
        show(title, {"created/s": round(rate)} | {f"creation_{name}": one for name, one in created.items()})
        rates = {"executions/s": round(count / (last - moment))}
        show(title, rates | figures(arrivals, dict.fromkeys(names, moment * 1_000.0)) | spent)


async def create(nodes: Sequence[BareNode], names: Sequence[str], moment: float) -> None:
    """Creates the actors, as many at once at each node."""
    left = iter(names)

    async def work(connections: KeptConnections) -> None:
        for name in left:
            body = json.dumps(moment)
            head = f"PUT /v1.0/actors/{KIND}/{name}/method/create HTTP/1.1\r\nHost: localhost\r\n"
            request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
            answer = await connections.exchange(request, method="PUT", seconds=PATIENCE)
            assert answer.status == httpx.codes.OK, answer.body

    async with contextlib.AsyncExitStack() as stack:
        workers = []
        for node in nodes:
            connections = KeptConnections(port=node.ports.http, most=AT_ONCE, response_bytes=65_536)
            stack.push_async_callback(connections.close)
            workers += [work(connections) for _ in range(AT_ONCE)]
        await asyncio.gather(*workers)


def await_arrivals(nodes: Sequence[BareNode], count: int) -> list[tuple[str, str, float]]:
    """The arrivals when there are `count`, or after a minute."""
    deadline = time.monotonic() + PATIENCE
    while sum(node.get("/count") for node in nodes) < count and time.monotonic() < deadline:
        time.sleep(0.5)
    return [(name, "", when) for node in nodes for name, when in node.get("/arrivals")]


def cpu(nodes: Sequence[BareNode]) -> dict[str, float]:
    """Seconds of CPU so far."""
    return {
        "nodes": sum(cpu_of(node.app) for node in nodes),
        "daprd": sum(cpu_of(node.sidecar) for node in nodes),
        **shared_cpu(nodes[0].cluster),
    }


@contextlib.contextmanager
def bare_nodes(*kind: str) -> Iterator[list[BareNode]]:
    """Two nodes over a fresh folder, ready for calls, gone afterwards."""
    programs = find_programs(os.environ)
    if missing := describe_missing(programs):
        raise SystemExit("\n".join(missing))
    end_orderly()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(folder=Path(folder), programs=programs)
        nodes = [BareNode(cluster, name, kind) for name in ("one", "two")]
        programs_of_nodes = [part for node in nodes for part in (node.sidecar, node.app)]
        try:
            for part in cluster.shared():
                part.start()
                assert part.wait(), part.last_lines(20)
            for part in programs_of_nodes:
                part.start()
            for part in programs_of_nodes:
                assert part.wait(), part.last_lines(20)
            uvloop.run(create(nodes, [f"warm-{number}" for number in range(4)], time.time() + 3_600))
            yield nodes
        finally:
            for part in programs_of_nodes:
                part.stop()
            cluster.stop()


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]), *sys.argv[2:4])
