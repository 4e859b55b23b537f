"""10,000 one-step POST jobs due at one moment: `python -m tests.bench.herd [count] [qos] [reads] [option …]`.

With `reads`, `GET /stats` is asked so often a second from that moment on.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from itertools import takewhile

import httpx

from tests.bench.stage import Stage, figures, one_shot, show, stage


def main(count: int = 10_000, qos: int = 0, reads: int = 0, *options: str) -> None:
    """Prints executions a second from the moment on, lateness, memory and CPU per execution."""
    with stage(*options) as on:
        moment = int(time.time()) + 4 + count // 500  # a job that is created after its moment never fires
        jobs = [one_shot(f"herd-{n}", moment, on.target, qos) for n in range(count)]
        rate = on.create(jobs)
        waiting = on.memory()
        before = on.cpu()
        planned = {job["jobId"]: moment * 1000.0 for job in jobs}
        with _reader(on, reads, moment) as answered:
            arrivals = on.await_arrivals(count, 60 + moment - time.time())
        found = figures(arrivals, planned)
        last = max(when for _, _, when in arrivals)
        _settle(on, count)
        show(
            f"herd of {count}, qos {qos}, {reads} reads/s",
            {
                "created/s": round(rate),
                "executions/s": round(count / (last / 1000 - moment)),
                **found,
                "cpu_us": round((on.cpu() - before) / count * 1e6),
                "waiting_mib": round(waiting),
                "memory_mib": round(on.memory()),
                "read_p50_ms": round(sorted(answered)[len(answered) // 2] * 1000) if answered else None,
                "read_max_ms": round(max(answered) * 1000) if answered else None,
            },
        )


@contextlib.contextmanager
def _reader(on: Stage, reads: int, moment: float) -> Iterator[list[float]]:
    """Asks `/stats` `reads` times a second from `moment` on; how long each answer took, in seconds."""
    answered: list[float] = []
    is_over = threading.Event()

    def read() -> None:
        is_over.wait(max(0, moment - time.time()))
        with httpx.Client(base_url=on.client.base_url, timeout=60, trust_env=False) as client:
            while not is_over.wait(1 / reads):
                began = time.perf_counter()
                client.get("/stats").raise_for_status()
                answered.append(time.perf_counter() - began)

    thread = threading.Thread(target=read, daemon=True)
    if reads:
        thread.start()
    yield answered
    is_over.set()
    if reads:
        thread.join()


def _settle(on: Stage, count: int) -> None:
    """Waits until the history has every execution."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ended = 0
        for key in on.keys or ("",):
            headers = {"authorization": key} if key else {}
            states = on.client.get("/stats", headers=headers).json()["data"]["byState"]
            ended += states.get("succeeded", 0)
        if ended >= count:
            return
        time.sleep(0.5)


if __name__ == "__main__":
    numbers = [int(argument) for argument in takewhile(str.isdigit, sys.argv[1:])]
    given = [*numbers, *(10_000, 0, 0)[len(numbers) :]]
    main(*given, *sys.argv[1 + len(numbers) :])
