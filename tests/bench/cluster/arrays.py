"""Creation in arrays, two nodes: `python -m tests.bench.cluster.arrays [count] [seconds ahead]`."""

import sys
import time

from tests.bench.cluster.stage import each, measured
from tests.bench.stage import one_shot, show

AHEAD = 86_400
SYSTEM = 50
"""More reminders than the system's own jobs register within a run."""


def main(count: int = 10_000, ahead: int = AHEAD) -> None:
    """Prints how many jobs a second and what one costs; none of them is to have a reminder."""
    with measured("one", "two") as bench:
        moment = int(time.time()) + ahead
        jobs = [one_shot(f"array-{n}", moment, bench.target.base, 0) for n in range(count)]
        known, before = bench.registered(), bench.cpu()
        created = bench.create(jobs)
        spent, registered = bench.cpu(), bench.registered() - known
        found = {"created/s": round(created), "reminders": registered, **each(spent, before, count)}
        show(f"{count} jobs in arrays, two nodes", found)
        own = "those of the system's own jobs aside, jobs of arrays have none (decision 52)"
        assert registered < max(count // 10, SYSTEM), f"{registered} reminders: {own}"


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
