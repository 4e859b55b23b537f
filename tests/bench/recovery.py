"""A start with many open executions: `python -m tests.bench.recovery [open] [in flight]`.

Kills the service (SIGKILL) while most executions wait for feedback and the others have calls in flight, since
their target stands still. The target goes on, the service starts again, and the time from the start of the
process to the arrival of the calls is taken.
"""

import os
import signal
import sys
import time
from typing import Any

from tests.bench.stage import Stage, one_shot, show, stage

REST = 3
PATIENCE = 180


def main(count: int = 20_000, in_flight: int = 6_000) -> None:
    """Prints until when the calls in flight have arrived again, and the readiness, in seconds."""
    with stage() as on:
        on.settle()
        waiting = count - in_flight
        fire(on, [reporting(f"wait-{n}", on.target) for n in range(waiting)])
        assert len(on.await_arrivals(waiting, PATIENCE)) >= waiting
        os.kill(on.bare.pid, signal.SIGSTOP)
        fire(on, [one_shot(f"z-flight-{n}", 0, on.target, 1) for n in range(in_flight)])
        _await_running(on, count)
        listening = on.restart(lambda: _go_on(on))
        began = time.time() - listening
        ready = on.await_ready(PATIENCE) - began
        before = sum(when / 1000 < began for _, _, when in on.arrivals())
        found = on.await_arrivals(before + in_flight, PATIENCE)
        again = [
            when / 1000 - began for job, _, when in found if job.startswith("z-") and when / 1000 > began
        ]
        show(
            f"{count} open executions, {in_flight} of them with calls in flight",
            {
                "listening_s": round(listening, 2),
                "ready_s": round(ready, 2),
                "arrived": len(again),
                "first_call_s": round(min(again), 2),
                "last_call_s": round(max(again), 2),
                "cpu_s": round(on.cpu(), 1),
            },
        )


def reporting(job_id: str, target: str) -> dict[str, Any]:
    """A job that waits for its target's feedback, which never comes."""
    return {**one_shot(job_id, 0, target, 1), "async": True, "timeoutSeconds": 3600}


def fire(on: Stage, definitions: list[dict[str, Any]]) -> None:
    """Creates jobs that are due at once."""
    on.create([{**one, "timer": {"dueTime": "0s"}} for one in definitions])


def _go_on(on: Stage) -> None:
    """The target takes what was on its way to it when the service died."""
    os.kill(on.bare.pid, signal.SIGCONT)
    time.sleep(REST)


def _await_running(on: Stage, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while on.client.get("/stats").json()["data"]["running"] < count and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(REST)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
