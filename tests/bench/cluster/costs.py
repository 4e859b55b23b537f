"""Reminders and state writes an execution: `python -m tests.bench.cluster.costs [seconds|slow] [qos]`."""

import sys
import time

from tests.bench.cluster.schedules import name_of, spread
from tests.bench.cluster.stage import Bench, measured
from tests.bench.stage import show

KINDS = {"seconds": (20, 1.0, 31.0, 60.0), "slow": (100, 35.0, 35.0, 70.0)}
"""kind → jobs, period (s), how long it runs before it is counted (s), for how long it is counted (s).

What a creation costs is over when the counting begins, and each job fires as often as any other meanwhile.
"""


def main(kind: str | None = None, qos: int | None = None) -> None:
    """Prints what one execution costs: one schedule of seconds and a slow one, each at qos 0 and qos 1."""
    for name in KINDS if kind is None else (kind,):
        for one in (0, 1) if qos is None else (qos,):
            with measured("one", "two") as bench:
                _measure(bench, name, one)


def _measure(bench: Bench, kind: str, qos: int) -> None:
    count, period, before, counted = KINDS[kind]
    first = int(time.time()) + 5.0
    bench.create(spread(count, period, first, bench.target.base, qos=qos))
    jobs = [name_of(number) for number in range(count)]
    time.sleep(max(first + before - 0.01 - time.time(), 0))
    arrived, writes, registered = bench.target.count(), bench.writes(jobs), bench.registered()
    time.sleep(max(first + before + counted - 0.01 - time.time(), 0))
    executions = bench.target.count() - arrived
    writes, registered = bench.writes(jobs) - writes, bench.registered() - registered
    show(
        f"{count} jobs every {period:g} s, two nodes, qos {qos}",
        {
            "executions": executions,
            "state_writes": writes,
            "reminders": registered,
            "writes_each": round(writes / executions, 3),
            "reminders_each": round(registered / executions, 3),
        },
    )


if __name__ == "__main__":
    main(*sys.argv[1:2], *(int(argument) for argument in sys.argv[2:3]))
