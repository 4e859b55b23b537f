"""Runs attacks and prints what they did: `python -m tests.bench.attacks [-s SECONDS] [NAME …]`; else all.

A line says how a bystander fared before the attack, a second one how during it: the lateness of its firings,
the longest answer of `/health/live` and how many it did not give, and the most memory of a process so far.
"""

import argparse
import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop

from tests.attack.bystander import Bystander, lateness, open_bystander
from tests.attack.service import open_service
from tests.bench.attacks.registry import Attack, Scene, load
from tests.bench.stage import show
from tests.unit.transport.servers import Stage

SECONDS = 10.0
REST = 2.0


async def run(name: str, attack: Attack, seconds: float) -> None:
    """One attack on a service of its own."""
    print(f"{name}: {attack.says}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        async with (
            open_service(path, limits=attack.limits, settings=attack.settings) as service,
            open_bystander(service) as bystander,
            AsyncExitStack() as stack,
        ):
            await asyncio.sleep(REST)
            before = await _figures(bystander, seconds / 2)
            show("  before", {**before, "memory_mib": round(service.peak_memory())})
            async with attack.begin(Scene(service, Stage(stack))):
                during = await _figures(bystander, seconds)
            show("  during", {**during, "memory_mib": round(service.peak_memory())})
            try:
                await bystander.check()
            except AssertionError as error:
                print(f"  NOT all of the bystander's executions succeeded: {error}", flush=True)


async def _figures(bystander: Bystander, seconds: float) -> dict[str, Any]:
    """Of the firings and the questions from now on, for so long."""
    seen = await bystander.look()
    arrivals, began = len(seen.arrivals), time.time() * 1000
    await asyncio.sleep(seconds)
    seen = await bystander.look()
    answers = [took for at, took in seen.health if at >= began]
    given = [took for took in answers if took is not None]
    return {
        **lateness(seen.arrivals[arrivals:]),
        "health_max_ms": max(given, default=None),
        "health_failed": len(answers) - len(given),
    }


async def main() -> None:
    """Runs the attacks that are named, one after the other."""
    attacks = load()
    parser = argparse.ArgumentParser(prog="python -m tests.bench.attacks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(sorted(attacks)))
    parser.add_argument("-s", "--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    if unknown := set(given.names) - set(attacks):
        parser.error(f"no attack {', '.join(sorted(unknown))}; there are {', '.join(sorted(attacks))}")
    for name in given.names or sorted(attacks):
        await run(name, attacks[name], given.seconds)


if __name__ == "__main__":
    uvloop.run(main())
