"""The kinds of work, what the arrivals say of one run, and medians and ratios of several. Pure."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Arrival = tuple[str, str, float]
EARLY = 0.5  # ms; clocks are read to the microsecond, moments are whole milliseconds


@dataclass(frozen=True)
class Figures:
    """Of one run: `completed` jobs had all steps, `rate` a second; lateness is the first step's, in ms."""

    completed: int
    lost: int
    doubled: int
    early: int
    rate: float | None
    p50: float | None
    p99: float | None
    worst: float | None


def find_figures(arrivals: Sequence[Arrival], planned: Mapping[str, float], steps: int) -> Figures:
    """`planned` are the moments of the jobs, `steps` how often each arrives. Both in ms since the epoch."""
    moments: dict[str, list[float]] = defaultdict(list)
    for name, _, moment in arrivals:
        if name in planned:
            moments[name].append(moment)
    ends = [sorted(times)[steps - 1] for times in moments.values() if len(times) >= steps]
    late = sorted(min(times) - planned[name] for name, times in moments.items())
    return Figures(
        completed=len(ends),
        lost=len(planned) - len(ends),
        doubled=sum(len(times) > steps for times in moments.values()),
        early=sum(one < -EARLY for one in late),
        rate=_rate(ends, min(planned.values(), default=0)),
        p50=_at(late, 50),
        p99=_at(late, 99),
        worst=late[-1] if late else None,
    )


def _rate(ends: Sequence[float], began: float) -> float | None:
    taken = max(ends, default=began) - began
    return len(ends) / taken * 1000 if taken > 0 else None


def _at(late: Sequence[float], percent: int) -> float | None:
    return late[min(len(late) - 1, len(late) * percent // 100)] if late else None


HERD, STEADY, CHAIN, SINGLE = "herd", "steady", "chain", "single"


@dataclass(frozen=True)
class Work:
    """`rate` is 0 where all jobs are due at one moment; `seconds` is how long they may take from there."""

    kind: str
    count: int
    rate: int
    steps: int
    seconds: float


def works(herd: int, rate: int, seconds: int) -> tuple[Work, ...]:
    """All kinds: half as many chains as there are jobs in the herd, a fifth of it created one by one."""
    return (
        Work(HERD, count=herd, rate=0, steps=1, seconds=45),
        Work(STEADY, count=rate * seconds, rate=rate, steps=1, seconds=seconds + 10),
        Work(CHAIN, count=max(1, herd // 2), rate=0, steps=3, seconds=45),
        Work(SINGLE, count=max(1, herd // 5), rate=0, steps=1, seconds=0),
    )


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
