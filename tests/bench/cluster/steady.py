"""Lateness at a steady rate, two nodes: `python -m tests.bench.cluster.steady [a second] [seconds] [qos]`."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_service.domain.moments import rfc3339
from tests.bench.cluster.stage import each, measured
from tests.bench.stage import Arrival, figures, show


def main(rate: int = 50, seconds: int = 30, qos: int = 0) -> None:
    """As many jobs as firings a second, each firing every second, evenly over it; prints their lateness."""
    with measured("one", "two") as bench:
        first = int(time.time()) + 5 + rate // 50
        created = bench.create(spread(rate, 1, first, bench.target.base, qos=qos))
        planned = firings(rate, 1, first, seconds)
        before = bench.cpu()
        bench.await_arrivals(len(planned), seconds + 20 + first - time.time())
        spent = bench.cpu()
        time.sleep(2)  # who is late or doubled
        arrivals = by_firing(bench.target.arrivals())
        show(
            f"{rate}/s for {seconds} s, two nodes, qos {qos}",
            {
                "created/s": round(created),
                **figures(arrivals, planned),
                **each(spent, before, len(planned)),
                "p99_ms_by_second": by_second(arrivals, planned, first),
            },
        )


def spread(count: int, period: float, first: float, target: str, **members: Any) -> list[dict[str, Any]]:
    """`count` jobs with `period` (s), the first one due at `first` (s since the epoch)."""
    return [
        {
            "jobId": name_of(number),
            "jobName": "bench",
            "creator": "bench",
            "creatorName": "bench",
            "timer": {
                "dueTime": rfc3339(round(moment_of(number, count, period, first) * 1_000)),
                "period": f"{period:g}s",
            },
            "overlapPolicy": "queue",
            "request": [{"url": f"{target}/run", "body": {"n": 1}}],
            **members,
        }
        for number in range(count)
    ]


def name_of(number: int) -> str:
    """The id of a job."""
    return f"every-{number}"


def moment_of(number: int, count: int, period: float, first: float) -> float:
    """When a job fires first, to the ms."""
    return first + int(number * period * 1_000 / count) / 1_000


def firings(count: int, period: float, first: float, times: int) -> dict[str, float]:
    """firing → its planned moment (wall, ms), the first `times` of each job."""
    return {
        f"{name_of(number)}-{turn}": 1_000 * (moment_of(number, count, period, first) + turn * period)
        for number in range(count)
        for turn in range(times)
    }


def by_firing(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """The arrivals under the names of `firings`: an Idempotency-Key is uid, executeNumber and step."""
    return [(f"{job}-{int(key.rsplit('-', 2)[1]) - 1}", key, at) for job, key, at in arrivals]


def by_second(arrivals: Sequence[Arrival], planned: Mapping[str, float], first: float) -> list[int]:
    """The p99 of the lateness (ms) of what was due in each second from `first` (s since the epoch) on."""
    seconds: dict[int, list[float]] = {}
    for firing, _, at in arrivals:
        if firing in planned:
            late = at - planned[firing]
            seconds.setdefault(int(planned[firing] / 1_000 - first), []).append(late)
    return [round(sorted(late)[len(late) * 99 // 100]) for _, late in sorted(seconds.items())]


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
