"""Creation one by one, two nodes: `python -m tests.bench.cluster.singly [count] [qos] [seconds ahead]`.

Sixteen keep-alive connections to each node; each sends the next job once the one before is answered. With
`ahead` the jobs fire once, 100 a second, from so many seconds after the beginning.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

import uvloop

from tests.bench.cluster.stage import Bench, each, measured
from tests.bench.creation import drive, post
from tests.bench.stage import figures, one_shots, show

CONNECTIONS = 16
A_SECOND = 100
DAY = 86_400


def main(count: int = 4_000, qos: int = 0, ahead: int = 0) -> None:
    """Prints how many jobs a second, what one costs, and how its first execution went."""
    with measured("one", "two") as bench:
        first, base = time.time() + (ahead or DAY), bench.target.base
        jobs, planned = one_shots("single", count, A_SECOND, first, base, qos)
        before = bench.cpu()
        seconds, created = uvloop.run(_create(bench.ports(), jobs))
        assert created == count, f"{created} of {count} were created"
        show(
            f"{count} jobs one by one, two nodes, qos {qos}",
            {"created/s": round(created / seconds), **each(bench.cpu(), before, count)},
        )
        if ahead:
            _await_firings(bench, planned)


def _await_firings(bench: Bench, planned: dict[str, float]) -> None:
    count, ahead = len(planned), [at / 1_000 - time.time() for at in planned.values()]
    if min(ahead) < 0:
        raise SystemExit("they were created too slowly for their moments: give more seconds ahead")
    before = bench.cpu()
    arrivals = bench.await_arrivals(count, max(ahead) + 30, after=1)
    show("their first executions", figures(arrivals, planned) | each(bench.cpu(), before, count))


async def _create(ports: list[int], jobs: Sequence[dict[str, Any]]) -> tuple[float, int]:
    """Seconds until all are answered, and how many were created."""
    requests = [post(f"/jobs/{job['jobId']}", job) for job in jobs]
    shares = [requests[place :: len(ports)] for place in range(len(ports))]
    found = await asyncio.gather(
        *(drive(port, share, CONNECTIONS, b"HTTP/1.1 201") for port, share in zip(ports, shares, strict=True))
    )
    return max(seconds for seconds, _ in found), sum(created for _, created in found)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
