"""Jobs of one step that fire at a period, their moments spread evenly over it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.cluster.stage import Arrival


def spread(count: int, period: float, first: float, target: str, **members: Any) -> list[dict[str, Any]]:
    """`count` jobs with `period` (s), the first one due at `first` (s since the epoch)."""
    return [
        {
            "jobId": name_of(number),
            "jobName": "bench",
            "creator": "bench",
            "creatorName": "bench",
            "timer": {
                "dueTime": rfc3339(moment_of(number, count, period, first)),
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


def rfc3339(moment: float) -> str:
    """A moment (s since the epoch) with its ms."""
    whole = round(moment * 1_000)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole // 1_000))
    return f"{text}.{whole % 1_000:03d}Z"
