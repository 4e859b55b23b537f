"""Creation in arrays, two nodes: `python -m tests.bench.cluster.arrays [count] [seconds ahead]`."""

import sys
import time

from tests.bench.cluster.stage import each, measured
from tests.bench.stage import one_shot, show

AHEAD = 86_400


def main(count: int = 10_000, ahead: int = AHEAD) -> None:
    """Prints how many jobs a second and what one costs; none of them is to have a reminder."""
    with measured("one", "two") as bench:
        moment = int(time.time()) + ahead
        jobs = [one_shot(f"array-{n}", moment, bench.target.base, 0) for n in range(count)]
        known, before = bench.registered(), bench.cpu()
        created = bench.create(jobs)
        spent = bench.cpu()
        show(
            f"{count} jobs in arrays, two nodes", {"created/s": round(created), **each(spent, before, count)}
        )
        registered = bench.registered() - known
        assert not registered, f"{registered} reminders: jobs of arrays have none (decision 52)"


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
