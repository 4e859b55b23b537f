"""Plays seeds: `python -m tests.simulation 726`, or `0..1000`; `-v` tells what happened."""

import argparse
import gc
import sys
import time
from collections import Counter
from contextlib import nullcontext
from functools import partial

import msgspec

from tests.simulation.cluster import ClusterWorld
from tests.simulation.judge import Finding, judge
from tests.simulation.mutants import MUTANTS
from tests.simulation.siblings import SiblingsWorld
from tests.simulation.trace import shrink, tell
from tests.simulation.world import World, WorldPlan, draw, play

PLACEMENTS: dict[str, type[World]] = {"alone": World, "siblings": SiblingsWorld, "dapr": ClusterWorld}


def live(plan: WorldPlan, placement: str = "alone") -> tuple[World, list[Finding]]:
    """The world of a plan, and what is wrong with it."""
    world = play(plan, PLACEMENTS[placement])
    return world, judge(world)


def is_broken(plan: WorldPlan, promise: str, placement: str = "alone") -> bool:
    """Whether the world of a plan does not keep this promise."""
    return any(one.promise == promise for one in live(plan, placement)[1])


def main(arguments: list[str]) -> int:
    """0: every promise is kept in every world."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seeds", help="a seed, or FIRST..LAST")
    parser.add_argument("--placement", choices=list(PLACEMENTS), default="alone")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell what happened")
    parser.add_argument("--shrink", action="store_true", help="leave out what a failure does not need")
    parser.add_argument("--mutant", choices=list(MUTANTS), help="plant this bug")
    chosen = parser.parse_args(arguments)
    with MUTANTS[chosen.mutant].planted() if chosen.mutant else nullcontext():
        return _play(chosen)


def _play(chosen: argparse.Namespace) -> int:
    first, _, last = chosen.seeds.partition("..")
    failed = 0
    kinds: Counter[str] = Counter()
    began = time.process_time()
    gc.freeze()
    for seed in range(int(first), int(last or first) + 1):
        world, findings = live(draw(seed), chosen.placement)
        if findings and chosen.shrink:
            fails = partial(is_broken, promise=findings[0].promise, placement=chosen.placement)
            world, findings = live(shrink(world.plan, fails), chosen.placement)
        if chosen.verbose:
            print(*tell(world), sep="\n")
            print(msgspec.json.format(msgspec.json.encode(world.plan)).decode())
        for finding in findings:
            print(f"seed {seed}: {finding.promise} {finding.text}")
            kinds[finding.promise] += 1
        failed += bool(findings)
    print(f"{failed} failed {dict(kinds)}, {time.process_time() - began:.1f} s of CPU")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
