"""Creation in arrays, two nodes: `python -m tests.bench.cluster.arrays [count] [seconds ahead]`."""

import sys
import time

from tests.bench.cluster.stage import Bench, each, measured
from tests.bench.stage import one_shot, show

AHEAD = 86_400
LONGEST_WAIT = 120


def main(count: int = 10_000, ahead: int = AHEAD) -> None:
    """Prints how many jobs a second, what one costs, and how long their reminders take that come after it."""
    with measured("one", "two") as bench:
        moment = int(time.time()) + ahead
        jobs = [one_shot(f"array-{n}", moment, bench.target.base, 0) for n in range(count)]
        known, before = bench.registered(), bench.cpu()
        began = time.perf_counter()
        created = bench.create(jobs)
        spent = bench.cpu()
        show(
            f"{count} jobs in arrays, two nodes", {"created/s": round(created), **each(spent, before, count)}
        )
        registered = await_reminders(bench, known + count) - known
        passed = {"reminders": registered, "all_s": round(time.perf_counter() - began, 1)}
        show("with their reminders", passed | each(bench.cpu(), before, count))


def await_reminders(bench: Bench, wanted: int) -> int:
    """How many the scheduler service has when it has all, or after a while."""
    deadline = time.monotonic() + LONGEST_WAIT
    while (found := bench.registered()) < wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
