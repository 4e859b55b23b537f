"""Results of runs: read from what programs print, and reduced to medians and ratios. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.compare.figures import Figures


@dataclass(frozen=True)
class Run:
    """One scheduler at one kind of work, once. `foreign` is what others used, as a part of one core."""

    leg: str
    kind: str
    created: float | None = None
    figures: Figures | None = None
    cpu_us: float | None = None
    recorded: int | None = None
    foreign: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Summary:
    """Medians over the runs of one scheduler at one kind of work; counts are those of the worst run."""

    runs: int
    created: float | None
    rate: float | None
    slowest: float | None
    fastest: float | None
    p50: float | None
    p99: float | None
    worst: float | None
    cpu_us: float | None
    lost: int
    doubled: int
    early: int


def parse_event(line: str) -> dict[str, Any] | None:
    """What a program tells in one line; None for anything else that it prints."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("event"), str) else None


def summarise(runs: Sequence[Run]) -> Summary | None:
    """None where no run came to an end."""
    whole = [run for run in runs if run.problem is None]
    if not whole:
        return None
    found = [run.figures for run in whole if run.figures is not None]
    rates = [one.rate for one in found if one.rate is not None]
    return Summary(
        runs=len(whole),
        created=_median(run.created for run in whole),
        rate=_median(rates),
        slowest=min(rates, default=None),
        fastest=max(rates, default=None),
        p50=_median(one.p50 for one in found),
        p99=_median(one.p99 for one in found),
        worst=_median(one.worst for one in found),
        cpu_us=_median(run.cpu_us for run in whole),
        lost=max((one.lost for one in found), default=0),
        doubled=max((one.doubled for one in found), default=0),
        early=max((one.early for one in found), default=0),
    )


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """How many times theirs ours is; None where one is missing or theirs is nothing."""
    return ours / theirs if ours is not None and theirs else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
