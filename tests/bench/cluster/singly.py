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

from tests.bench.cluster.schedules import rfc3339
from tests.bench.cluster.stage import Bench, each, measured
from tests.bench.creation import drive, post, waiting_job
from tests.bench.stage import figures, show

CONNECTIONS = 16
A_SECOND = 100


def main(count: int = 4_000, qos: int = 0, ahead: int = 0) -> None:
    """Prints how many jobs a second, what one costs, and how its first execution went."""
    with measured("one", "two") as bench:
        first = time.time() + ahead
        moments = {f"single-{number}": first + number / A_SECOND for number in range(count)}
        jobs = [waiting_job(job_id, bench.target.base) | {"qos": qos} for job_id in moments]
        if ahead:
            for job in jobs:
                job["timer"] = {"dueTime": rfc3339(moments[str(job["jobId"])]), "period": "0s"}
        before = bench.cpu()
        seconds, created = uvloop.run(_create(bench.ports(), jobs))
        assert created == count, f"{created} of {count} were created"
        show(
            f"{count} jobs one by one, two nodes, qos {qos}",
            {"created/s": round(created / seconds), **each(bench.cpu(), before, count)},
        )
        if ahead:
            _await_firings(bench, moments)


def _await_firings(bench: Bench, moments: dict[str, float]) -> None:
    count, first = len(moments), min(moments.values())
    if time.time() > first:
        raise SystemExit("they were created too slowly for their moments: give more seconds ahead")
    before = bench.cpu()
    arrivals = bench.await_arrivals(count, max(moments.values()) - time.time() + 30, after=1)
    planned = {job_id: moment * 1_000 for job_id, moment in moments.items()}
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
