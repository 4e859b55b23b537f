"""Executions a second with one node and with two: `python -m tests.bench.cluster.rate [count] [qos]`."""

import sys
import time

from tests.bench.cluster.stage import each, measured
from tests.bench.cluster.vigil import watched
from tests.bench.stage import figures, one_shot, show


def main(count: int = 1_000, qos: int = 0) -> None:
    """Jobs due at one moment, waiting in memory: prints how fast they go, with one node, then with two."""
    for names in (("one",), ("one", "two")):
        _measure(names, count, qos)


def _measure(names: tuple[str, ...], count: int, qos: int) -> None:
    with measured(*names) as bench:
        moment = int(time.time()) + 8 + count // 60
        jobs = [one_shot(f"rate-{n}", moment, bench.target.base, qos) for n in range(count)]
        created = bench.create(jobs)
        if time.time() > moment - 1:
            raise SystemExit(f"only {created:.0f} jobs a second were created: too slow for their moment")
        time.sleep(moment - 1 - time.time())
        before = bench.cpu()
        with watched(bench) as vigil:
            arrivals = bench.await_arrivals(count, 90, after=5)
        last = max(when for _, _, when in arrivals) / 1000
        show(
            f"{count} jobs at once, {len(names)} of two nodes, qos {qos}",
            {
                "created/s": round(created),
                "executions/s": round(count / (last - moment)),
                **figures(arrivals, {job["jobId"]: moment * 1000.0 for job in jobs}),
                **each(bench.cpu(), before, count),
                **vigil.figures(),
            },
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
