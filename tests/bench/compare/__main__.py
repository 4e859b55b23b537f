"""`python -m tests.bench.compare`: prints the comparison as Markdown; progress goes to standard error."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.compare.legs import LEGS, Leg, choose, open_cache, why_not
from tests.bench.compare.processes import find_cores
from tests.bench.compare.race import Race
from tests.bench.compare.results import CHAIN, HERD, SINGLE, STEADY, Run, Summary, Work, summarise, works
from tests.bench.compare.table import Contestant, describe, number, render

KINDS = (HERD, STEADY, CHAIN, SINGLE)


def main() -> None:
    """Runs everybody in turn, as often as asked, and writes the tables."""
    asked = _parse()
    cores, cache = find_cores(), open_cache()
    os.sched_setaffinity(0, cores.others)
    chosen = choose(asked.only)
    absent = {leg.key: why_not(leg, cache) for leg in chosen}
    kinds = [work for work in works(asked.herd, asked.rate, asked.seconds) if work.kind in asked.works]
    race, runs, began = Race(cores=cores, cache=cache), [], time.monotonic()
    try:
        for turn in range(asked.runs):
            for run in _turn(race, [leg for leg in chosen if not absent[leg.key]], kinds):
                _say(f"{turn + 1}/{asked.runs} {run.kind:6} {run.leg:19} {_sum_up(run)}")
                runs.append(run)
    except KeyboardInterrupt:
        _say("stopped: the tables have what there is")
    _say(f"took {(time.monotonic() - began) / 60:.1f} minutes")
    legs = [Contestant(leg.key, leg.title, absent[leg.key]) for leg in chosen]
    foreign = [run.foreign for run in runs if run.foreign is not None]
    present = [leg for leg in chosen if not absent[leg.key]]
    head = describe(cores, present, asked.runs, foreign)
    _write(f"{head}\n\n{render(_reduce(runs), kinds, legs)}", asked.output)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compare", description=__doc__)
    keys = ", ".join(leg.key for leg in LEGS)
    parser.add_argument("--only", type=_words, default=[], help=f"beginnings of names, by commas: {keys}")
    parser.add_argument("--works", type=_kinds, default=KINDS, help=f"by commas, of {', '.join(KINDS)}")
    parser.add_argument("--herd", type=int, default=10_000, help="jobs due at one moment (%(default)s)")
    parser.add_argument(
        "--rate", type=int, default=1_000, help="jobs a second, a multiple of 10 (%(default)s)"
    )
    parser.add_argument("--seconds", type=int, default=20, help="how long at that rate (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of which the medians are taken (%(default)s)")
    parser.add_argument("-o", "--output", type=Path, help="a file for the tables, instead of standard output")
    asked = parser.parse_args()
    if asked.rate % 10 or min(asked.herd, asked.rate, asked.seconds, asked.runs) < 1:
        parser.error("numbers are 1 or more, and the rate is a multiple of 10")
    return asked


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _kinds(text: str) -> list[str]:
    unknown = [word for word in _words(text) if word not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(KINDS)}")
    return _words(text)


def _turn(race: Race, legs: Sequence[Leg], kinds: Sequence[Work]) -> Iterator[Run]:
    """Everybody once, at one kind of work after the other."""
    for work in kinds:
        for leg in legs:
            if race.wants(leg, work):
                yield race.run(leg, work)


def _reduce(runs: Sequence[Run]) -> dict[str, dict[str, Summary | None]]:
    """kind → key → summary."""
    found: dict[str, dict[str, Summary | None]] = {kind: {} for kind in KINDS}
    for kind, key in dict.fromkeys((run.kind, run.leg) for run in runs):
        found[kind][key] = summarise([run for run in runs if (run.kind, run.leg) == (kind, key)])
    return found


def _sum_up(run: Run) -> str:
    if run.problem:
        return f"failed: {run.problem}"
    told = {"created/s": run.created, "cpu µs": run.cpu_us}
    if run.figures is not None:
        one = run.figures
        told |= {"/s": one.rate, "p50": one.p50, "p99": one.p99, "max": one.worst}
        told |= {"lost": one.lost, "doubled": one.doubled, "early": one.early}
    told |= {"recorded": run.recorded, "others' cpu": run.foreign}
    return ", ".join(f"{name} {number(value)}" for name, value in told.items() if value is not None)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
