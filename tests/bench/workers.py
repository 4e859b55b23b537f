"""What more processes gain: `python -m tests.bench.workers [count] [qos] [processes]`.

The same herd for one process, for a service with worker processes, and divided among services that know
nothing of each other: the last is the most that can be had on these cores against this target.
"""

import contextlib
import sys
import time

from tests.bench.stage import Stage, figures, one_shot, show, stage


def main(count: int = 10_000, qos: int = 0, processes: int = 2) -> None:
    """Prints executions a second and CPU of each."""
    for title, number, options in (
        ("one process", 1, ()),
        (f"--workers {processes}", 1, ("--workers", str(processes))),
        (f"{processes} services", processes, ()),
    ):
        with contextlib.ExitStack() as stack:
            services = [stack.enter_context(stage(*options)) for _ in range(number)]
            _run(title, services, count, qos)


def _run(title: str, services: list[Stage], count: int, qos: int) -> None:
    target = services[0]
    moment = int(time.time()) + 10 + count // 1_000
    for place, service in enumerate(services):
        service.settle()
        mine = range(place, count, len(services))
        service.create([one_shot(f"herd-{n}", moment, target.target, qos) for n in mine])
    before = sum(service.cpu() for service in services)
    arrivals = target.await_arrivals(count, 120 + moment - time.time())
    last = max(arrived for _, _, arrived in arrivals) / 1_000
    time.sleep(2)
    show(
        f"herd of {count}, qos {qos}, {title}",
        {
            "executions/s": round(len(arrivals) / (last - moment)),
            **figures(arrivals, {f"herd-{n}": moment * 1000.0 for n in range(count)}),
            "cpu_us": round((sum(service.cpu() for service in services) - before) / count * 1e6),
        },
    )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
