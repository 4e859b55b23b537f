"""How many instructions telemetry adds to an execution: `python -m tests.bench.instructions [steps]`.

A busy machine makes times of one per cent unreadable; instructions are the same each time. valgrind counts
them, so it has to be installed; it takes some minutes. Each figure is the difference of a process that fires
one batch and one that fires nine, so that neither the start nor the creation of the jobs is in it.
"""

import asyncio
import gc
import os
import re
import subprocess
import sys

from scheduler_service.telemetry.decorators import NO_DECORATORS
from tests.bench import turns
from tests.bench.telemetry import all_telemetry

FEW, MANY, SIZE = 1, 9, 25
COUNT = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


async def fire(name: str, batches: int, steps: int) -> None:
    """Fires so many batches, and ends the process at once."""
    with_all = all_telemetry()  # made in both, so that both have imported the same
    turns.SIZE, turns.LATER = SIZE, 0  # the next round of the loop, however slow the machine is
    firing = turns.Firing(qos=0, steps=steps, decorators=with_all if name == "with" else NO_DECORATORS)
    await firing.prepare(MANY)
    gc.disable()
    for _ in range(batches):
        await firing.fire()
    os._exit(0)


def count(name: str, steps: int) -> float:
    """Instructions of one execution."""
    total = {}
    for batches in (FEW, MANY):
        child = (sys.executable, "-m", "tests.bench.instructions", name, str(batches), str(steps))
        ran = subprocess.run(
            (*COUNT, *child),
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": "0"},
        )
        found = re.search(r"I\s+refs:\s+([\d,]+)", ran.stderr)
        assert found is not None, ran.stderr
        total[batches] = int(found[1].replace(",", ""))
    return (total[MANY] - total[FEW]) / (MANY - FEW) / SIZE


def compare(steps: int) -> None:
    """Prints both figures and what was added."""
    without, with_all = count("without", steps), count("with", steps)
    added = with_all - without
    print(
        f"{steps} steps, instructions an execution: without {without:,.0f}, with {with_all:,.0f}, "
        f"added {added:,.0f} ({added / without:.2%})"
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(fire(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    compare(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
