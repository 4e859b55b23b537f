"""Creation one by one, two nodes: `python -m tests.bench.cluster.singly [count] [qos]`.

Sixteen keep-alive connections to each node; each sends the next job once the one before is answered.
"""

import asyncio
import sys

import uvloop

from tests.bench.cluster.stage import each, measured
from tests.bench.creation import drive, post, waiting_job
from tests.bench.stage import show

CONNECTIONS = 16


def main(count: int = 4_000, qos: int = 0) -> None:
    """Prints how many jobs a second, and what one costs."""
    with measured("one", "two") as bench:
        before = bench.cpu()
        seconds, created = uvloop.run(_create(bench.ports(), bench.target.base, count, qos))
        assert created == count, f"{created} of {count} were created"
        show(
            f"{count} jobs one by one, two nodes, qos {qos}",
            {"created/s": round(created / seconds), **each(bench.cpu(), before, count)},
        )


async def _create(ports: list[int], target: str, count: int, qos: int) -> tuple[float, int]:
    """Seconds until all are answered, and how many were created."""
    requests = [
        post(f"/jobs/single-{number}", waiting_job(f"single-{number}", target) | {"qos": qos})
        for number in range(count)
    ]
    shares = [requests[place :: len(ports)] for place in range(len(ports))]
    found = await asyncio.gather(
        *(drive(port, share, CONNECTIONS, b"HTTP/1.1 201") for port, share in zip(ports, shares, strict=True))
    )
    return max(seconds for seconds, _ in found), sum(created for _, created in found)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
