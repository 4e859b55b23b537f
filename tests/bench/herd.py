"""10,000 one-step POST jobs due at one moment: `python -m tests.bench.herd [count] [qos] [option …]`."""

import sys
import time

from tests.bench.stage import Stage, figures, one_shot, show, stage


def main(count: int = 10_000, qos: int = 0, *options: str) -> None:
    """Prints executions a second from the moment on, lateness, memory and CPU per execution."""
    with stage(*options) as on:
        moment = int(time.time()) + 4 + count // 500  # a job that is created after its moment never fires
        jobs = [one_shot(f"herd-{n}", moment, on.target, qos) for n in range(count)]
        rate = on.create(jobs)
        waiting = on.memory()
        before = on.cpu()
        planned = {job["jobId"]: moment * 1000.0 for job in jobs}
        arrivals = on.await_arrivals(count, 60 + moment - time.time())
        found = figures(arrivals, planned)
        last = max(when for _, _, when in arrivals)
        _settle(on, count)
        show(
            f"herd of {count}, qos {qos}",
            {
                "created/s": round(rate),
                "executions/s": round(count / (last / 1000 - moment)),
                **found,
                "cpu_us": round((on.cpu() - before) / count * 1e6),
                "waiting_mib": round(waiting),
                "memory_mib": round(on.memory()),
            },
        )


def _settle(on: Stage, count: int) -> None:
    """Waits until the history has every execution."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        states = on.client.get("/stats").json()["data"]["byState"]
        if states.get("succeeded", 0) >= count:
            return
        time.sleep(0.5)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]), *sys.argv[3:])
