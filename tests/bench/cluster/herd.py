"""A herd of reminders at one moment, two nodes: `python -m tests.bench.cluster.herd [count] [qos]`."""

import sys
import time

from tests.bench.cluster.stage import each, measured
from tests.bench.stage import figures, one_shot, show

FAR = 31
"""Beyond it (s) a job waits for its reminder, not in the memory of a node (`hosts/reminders`)."""
LATECOMERS = 15
"""A delivery that is repeated comes 5 s after the first."""


def main(count: int = 5_000, qos: int = 0) -> None:
    """Prints executions a second, lateness, what was lost or doubled, and the history."""
    with measured("one", "two") as bench:
        moment = int(time.time()) + FAR + 5 + count // 60
        jobs = [one_shot(f"herd-{n}", moment, bench.target.base, qos) for n in range(count)]
        created = bench.create(jobs)
        if time.time() > moment - FAR:
            raise SystemExit(f"only {created:.0f} jobs a second were created: too slow for their reminders")
        time.sleep(moment - 2 - time.time())
        before = bench.cpu()
        bench.await_arrivals(count, 120, after=1)
        # What idle nodes cost while latecomers are waited for belongs to no execution.
        spent = bench.cpu()
        arrivals = bench.await_arrivals(count, 0, after=LATECOMERS)
        found = figures(arrivals, {job["jobId"]: moment * 1000.0 for job in jobs})
        last = max(when for _, _, when in arrivals) / 1000
        title = f"herd of {count} reminders, two nodes, qos {qos}"
        rates = {"created/s": round(created), "executions/s": round(count / (last - moment))}
        show(title, rates | found | each(spent, before, count))
        show(title, {"requests_sent_twice": repeated(arrivals), "recorded": bench.succeeded()})


def repeated(arrivals: list[tuple[str, str, float]]) -> int:
    """How many requests came once more under the same Idempotency-Key."""
    return len(arrivals) - len({key for _, key, _ in arrivals})


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
