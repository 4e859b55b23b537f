"""Jobs that wait: `python -m tests.bench.million [count]`. What they weigh, and how fast a start is.

Creates them through the API in arrays, measures memory and disk, kills the service (SIGKILL) while some jobs
become overdue, starts it again, and takes the time from the start of the process to the first of them.
"""

import sys
import time

import uvloop

from tests.bench.creation import ARRAY, PIPES, drive, post, waiting_job
from tests.bench.stage import Stage, one_shot, show, stage

OVERDUE = 200
SOON = 4


def main(count: int = 1_000_000) -> None:
    """Prints creations a second, memory, disk, and the seconds of a start after SIGKILL."""
    with stage() as on:
        on.settle()
        idle = on.memory()
        rate = fill(on, count)
        full, disk = on.memory(), on.disk()
        moment = int(time.time()) + SOON
        on.create([one_shot(f"overdue-{n}", moment, on.target, 0) for n in range(OVERDUE)])
        listening = on.restart(lambda: time.sleep(max(moment + 1 - time.time(), 0)))
        began = time.time() - listening
        ready = on.await_ready() - began
        arrivals = [when / 1000 - began for _, _, when in on.await_arrivals(OVERDUE, 30)]
        show(
            f"{count} waiting jobs",
            {
                "created/s": round(rate),
                "idle_mib": round(idle),
                "waiting_mib": round(full),
                "disk_mib": round(disk),
                "ready_s": round(ready, 2),
                "first_overdue_s": round(min(arrivals), 2),
                "last_overdue_s": round(max(arrivals), 2),
                "arrived": len(arrivals),
                "restarted_mib": round(on.memory()),
            },
        )


def fill(on: Stage, count: int, *, prefix: str = "wait") -> float:
    """Creates jobs that wait for a day far away; how many a second."""
    began, done = time.perf_counter(), 0
    while done < count:
        some = [waiting_job(f"{prefix}-{n}", on.target) for n in range(done, min(done + 50 * ARRAY, count))]
        arrays = [post("/jobs", some[at : at + ARRAY]) for at in range(0, len(some), ARRAY)]
        _, created = uvloop.run(drive(on.port, arrays, PIPES, b'"status":"created"'))
        assert created == len(some), f"{created} of {len(some)} were created"
        done += created
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
