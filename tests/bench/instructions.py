"""How many instructions telemetry adds to an execution: `python -m tests.bench.instructions`.

A busy machine makes times of one per cent unreadable; instructions are the same each time. valgrind counts
them, so it has to be installed; it takes some minutes. What telemetry sees of an execution (the records of
both turns, the outcome of its call, its catalogue entry) is shown again and again, with telemetry and
without, and compared with what a whole execution takes. Each figure is a difference of two processes, so
that no start is in it.
"""

import asyncio
import gc
import os
import re
import subprocess
import sys

from scheduler_service.telemetry.decorators import NO_DECORATORS
from tests.bench import turns
from tests.bench.telemetry_view import Seen, all_telemetry

SIZE, FEW, MANY = 25, 1, 9
REPEATED = 40
COUNT = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
STEPS = 1


async def work(name: str, times: int) -> None:
    """Fires so many batches, or shows what one was so often; ends the process at once."""
    seen, with_all = Seen(), all_telemetry()  # made in each, so that all have imported the same
    turns.SIZE, turns.LATER = SIZE, 0  # the next round of the loop, however slow the machine is
    firing = turns.Firing(qos=0, steps=STEPS, decorators=NO_DECORATORS if name == "fire" else seen.decorators)
    await firing.prepare(MANY)
    gc.disable()
    seen.shown.clear()
    for _ in range(times if name == "fire" else 1):
        await firing.fire()
    if name != "fire":
        seen.show(with_all if name == "with" else NO_DECORATORS, times)
    os._exit(0)


def count(name: str, few: int, many: int) -> float:
    """Instructions of one execution."""
    total = []
    for times in (few, many):
        child = (sys.executable, "-m", "tests.bench.instructions", name, str(times))
        variables = os.environ | {"PYTHONHASHSEED": "0"}
        ran = subprocess.run((*COUNT, *child), capture_output=True, text=True, check=True, env=variables)
        found = re.search(r"I\s+refs:\s+([\d,]+)", ran.stderr)
        assert found is not None, ran.stderr
        total.append(int(found[1].replace(",", "")))
    return (total[1] - total[0]) / (many - few) / SIZE


def compare() -> None:
    """Prints what an execution takes, and what was added to it."""
    whole = count("fire", FEW, MANY)
    without, with_all = count("without", 0, REPEATED), count("with", 0, REPEATED)
    added = with_all - without
    print(f"instructions an execution: {whole:,.0f}, telemetry {added:,.0f} ({added / whole:.2%})")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(work(sys.argv[1], int(sys.argv[2])))
    compare()
