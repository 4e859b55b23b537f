"""Executions at a steady rate: `python -m tests.bench.steady [a second] [seconds] [qos] [option …]`."""

import sys
import time

from tests.bench.stage import figures, one_shots, show, stage


def main(rate: int = 1_000, seconds: int = 60, qos: int = 0, *options: str) -> None:
    """Prints lateness, memory and CPU per execution. The jobs are due one after the other, to the ms."""
    count = rate * seconds
    with stage(*options) as on:
        began = int(time.time()) + 10 + count // 1_000
        jobs, planned = one_shots("steady", count, rate, began, on.target, qos)
        created = on.create(jobs)
        before = on.cpu()
        arrivals = on.await_arrivals(count, seconds + 60 + began - time.time())
        show(
            f"{rate}/s for {seconds} s, qos {qos}",
            {
                "created/s": round(created),
                **figures(arrivals, planned),
                "cpu_us": round((on.cpu() - before) / count * 1e6),
                "memory_mib": round(on.memory()),
            },
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]), *sys.argv[4:])
