"""What the arrivals at the target say about one run. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
