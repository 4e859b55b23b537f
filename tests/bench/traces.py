"""What traces cost where they are on: `python -m tests.bench.traces [per second] [seconds] [rounds]`.

One-shot jobs of one step fire, so many in each second, in a service that exports every trace to a collector
of OTLP on this machine, and in one that exports none, in turns.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator

from tests.bench.stage import Stage, figures, one_shot, show, stage
from tests.otlp_collector import collecting

EXPORTED = "punctual_spans_exported_total"
DROPPED = "punctual_spans_dropped_total"


def main(each_second: int = 200, seconds: int = 15, rounds: int = 3) -> None:
    """Prints a line for each service: CPU of an execution, lateness, spans."""
    for _ in range(rounds):
        for is_on in (False, True):
            with contextlib.ExitStack() as stack:
                if is_on:
                    url = stack.enter_context(collecting()).url
                    stack.enter_context(_environment(OTEL_EXPORTER_OTLP_ENDPOINT=url))
                on = stack.enter_context(stage())
                show("with traces" if is_on else "without", _fire(on, each_second, seconds))


def _fire(on: Stage, each_second: int, seconds: int) -> dict[str, object]:
    count = each_second * seconds
    moment = int(time.time()) + 4 + count // 500
    planned = {f"job-{n}": moment + n // each_second for n in range(count)}
    on.create([one_shot(job_id, due, on.target, 0) for job_id, due in planned.items()])
    before = on.cpu()
    arrivals = on.await_arrivals(count, 60 + moment + seconds - time.time())
    found = figures(arrivals, {job_id: due * 1_000.0 for job_id, due in planned.items()})
    time.sleep(2)  # the history and the last spans
    return {**found, "cpu_us": round((on.cpu() - before) / count * 1e6), **_spans(on)}


def _spans(on: Stage) -> dict[str, int]:
    lines = on.client.get("/metrics").text.splitlines()

    def total(name: str) -> int:
        return round(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)))

    return {"exported": total(EXPORTED), "dropped": total(DROPPED)}


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
