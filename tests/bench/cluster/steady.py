"""Lateness at a steady rate, two nodes: `python -m tests.bench.cluster.steady [a second] [seconds] [qos]`."""

import sys
import time

from tests.bench.cluster.schedules import by_firing, by_second, firings, spread
from tests.bench.cluster.stage import each, measured
from tests.bench.cluster.vigil import watched
from tests.bench.stage import figures, show


def main(rate: int = 50, seconds: int = 30, qos: int = 0) -> None:
    """As many jobs as firings a second, each firing every second, evenly over it; prints their lateness."""
    with measured("one", "two") as bench:
        first = int(time.time()) + 5 + rate // 50
        created = bench.create(spread(rate, 1, first, bench.target.base, qos=qos))
        planned = firings(rate, 1, first, seconds)
        before = bench.cpu()
        with watched(bench) as vigil:
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
                **vigil.figures(),
                "p99_ms_by_second": by_second(arrivals, planned, first),
            },
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
