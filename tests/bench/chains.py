"""Chains due at one moment: `python -m tests.bench.chains [count] [steps] [qos] [option …]`.

Each step after the first sends a member of the answer before it, by a JSONPath.
"""

import sys
import time
from collections import Counter

from tests.bench.stage import one_shot, show, stage


def main(count: int = 2_000, steps: int = 4, qos: int = 0, *options: str) -> None:
    """Prints chains a second from the first request to the last, and the CPU of a chain."""
    with stage(*options) as on:
        on.settle()
        due = int(time.time()) + 5 + count // 1_000
        jobs = [one_shot(f"chain-{n}", due, on.target, qos) for n in range(count)]
        for job in jobs:
            first = job["request"][0]
            job["request"] = [first, *({**first, "body": {"n": "${$.n}|json"}} for _ in range(1, steps))]
        on.create(jobs)
        before = on.cpu()
        arrivals = on.await_arrivals(count * steps, 60 + due - time.time())
        seen = Counter(job for job, _, _ in arrivals)
        moments = [moment for _, _, moment in arrivals]
        taken = (max(moments) - min(moments)) / 1000
        show(
            f"{count} chains of {steps}, qos {qos}",
            {
                "chains/s": round(count / taken),
                "whole": sum(seen[job["jobId"]] == steps for job in jobs),
                "cpu_us": round((on.cpu() - before) / count * 1e6),
                "memory_mib": round(on.memory()),
            },
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]), *sys.argv[4:])
