"""Executions at a steady rate: `python -m tests.bench.steady [a second] [seconds] [qos] [option …]`."""

import sys
import time

from tests.bench.stage import figures, one_shot, show, stage


def main(rate: int = 1_000, seconds: int = 60, qos: int = 0, *options: str) -> None:
    """Prints lateness, memory and CPU per execution. The jobs are due one after the other, to the ms."""
    count = rate * seconds
    with stage(*options) as on:
        began = int(time.time()) + 10 + count // 1_000
        planned, jobs = {}, []
        for n in range(count):
            moment = began + n * 1_000 // rate / 1_000
            job = one_shot(f"steady-{n}", moment, on.target, qos)
            job["timer"]["dueTime"] = _rfc3339(moment)
            jobs.append(job)
            planned[job["jobId"]] = moment * 1000
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


def _rfc3339(moment: float) -> str:
    whole = int(moment)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return f"{text}.{round((moment - whole) * 1000):03d}Z"


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]), *sys.argv[4:])
