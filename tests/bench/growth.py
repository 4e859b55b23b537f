"""What an execution costs as the store grows: `python -m tests.bench.growth [jobs …]`.

For each size: creates so many waiting jobs, starts the service anew, so that memory knows none of them, and
triggers 1,000 of them, scattered over all. CPU is the service's, from the first request to the last record.
"""

import sys
import time

import uvloop

from tests.bench.creation import CONNECTIONS, drive, post
from tests.bench.million import fill
from tests.bench.stage import Stage, show, stage

SIZES = (1_000, 100_000, 1_000_000)
TRIGGERED = 1_000
ROUNDS = 3


def main(*sizes: int) -> None:
    """Prints CPU per execution for each size: cold, the jobs being on disk alone, and warm, in memory."""
    for size in sizes or SIZES:
        with stage() as on:
            on.settle()
            fill(on, size)
            on.restart()
            on.settle()
            cold = _trigger(on, size)
            warm = min(_trigger(on, size) for _ in range(ROUNDS))
            show(
                f"{size} jobs in the store",
                {
                    "executions": TRIGGERED,
                    "cold_us": round(cold * 1e6),
                    "warm_us": round(warm * 1e6),
                    "memory_mib": round(on.memory()),
                    "disk_mib": round(on.disk()),
                },
            )


def _trigger(on: Stage, size: int) -> float:
    """Seconds of CPU for each execution."""
    known, before = len(on.arrivals()), on.cpu()
    step = size // TRIGGERED
    requests = [post(f"/jobs/wait-{n * step}/trigger", {}) for n in range(TRIGGERED)]
    _, accepted = uvloop.run(drive(on.port, requests, CONNECTIONS, b"HTTP/1.1 200"))
    assert accepted == TRIGGERED, f"{accepted} of {TRIGGERED} were accepted"
    found = on.await_arrivals(known + TRIGGERED, 60)
    assert len(found) == known + TRIGGERED, f"{len(found) - known} of {TRIGGERED} arrived"
    time.sleep(1)  # the last records reach the history
    return (on.cpu() - before) / TRIGGERED


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
