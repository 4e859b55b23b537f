"""How long one thing within the allowed sizes holds the loop: `python -m tests.bench.stalls [word …]`.

Each attack runs against a real service while a job fires every 100 ms. Printed are the longest time for which
the service's loop did nothing else, as a tick of each millisecond saw it, how much of it its thread was at
work (the rest it waited for the interpreter, or for a processor), the lateness of the job, and the most
memory that the service has had. The words name the attacks to run: those that contain one of them; with
`alone` each has a service of its own that has just started.
"""

import math
import sys
import time
from collections.abc import Callable

from tests.bench.stage import show
from tests.bench.stall_attacks import ATTACKS, Answer
from tests.bench.stall_probe import Probe, probing
from tests.bench.stall_registrations import REGISTRATIONS


def main(*words: str) -> None:
    """Prints a line for each attack; a word with `=` is a setting of the service."""
    options = [word for word in words if "=" in word]
    names = [word for word in words if "=" not in word and word != "alone"]
    chosen = {
        name: attack
        for name, attack in (ATTACKS | REGISTRATIONS).items()
        if not names or any(word in name for word in names)
    }
    for group in [{name: attack} for name, attack in chosen.items()] if "alone" in words else [chosen]:
        with probing("services.declared_bytes=1000000000", *options) as probe:
            time.sleep(2)
            for name, attack in group.items():
                _measure(probe, name, attack)


def _measure(probe: Probe, name: str, attack: Callable[[Probe], Answer]) -> None:
    time.sleep(0.3)
    probe.tick()
    since, began = time.time(), time.perf_counter()
    answer = attack(probe)
    took = time.perf_counter() - began
    time.sleep(1)
    share, late = probe.tick(), probe.lateness(since)
    values = {
        **{f"{name}_ms": round(value, 1) for name, value in zip(share._fields[:4], share[:4], strict=True)},
        "late_p99_ms": round(late[math.ceil(len(late) * 0.99) - 1], 1) if late else None,
        "took_ms": round(took * 1000),
        "memory_mib": round(probe.memory()),
        "peak_mib": round(probe.peak()),
        "status": answer.status_code if answer is not None else None,
        "threads": share.threads,
    }
    show(f"{name:24}", values)


if __name__ == "__main__":
    main(*sys.argv[1:])
