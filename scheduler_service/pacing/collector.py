"""How often Python's collector looks for cycles: each of its rounds keeps the interpreter from the loop."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

FEW, MANY = 5_000, 25_000
"""Young objects of one round: while it finds garbage, and while it finds hardly any.

To free one object of a cycle takes many times as long as to look at one that lives: 57,000 of them were one
round of 116 ms. An execution leaves no cycles, so most rounds free nothing; then five times fewer of them
cost half, as much of what is young at first is gone by itself by then."""

OLD = 2_000_000
"""So many objects make the collector look at those that have outlived a round: seldom, as it takes long."""

NEVER = 1 << 30

Thresholds = tuple[int, int, int]


def _thresholds(young: int) -> Thresholds:
    return (young, OLD // young, 20)


SEARCHING, RESTING = _thresholds(FEW), _thresholds(MANY)


def tend_collector() -> None:
    """From now on the collector looks at `FEW` or `MANY` young objects a round, by what it found before."""
    gc.set_threshold(*SEARCHING)
    if _adapt not in gc.callbacks:
        gc.callbacks.append(_adapt)


def _adapt(phase: str, info: dict[str, Any]) -> None:
    """After each round over young objects; leaves alone what others have set."""
    now = gc.get_threshold()
    if phase == "stop" and info["generation"] == 0 and now in (SEARCHING, RESTING):
        wanted = SEARCHING if info["collected"] > now[0] // 10 else RESTING
        if now != wanted:
            gc.set_threshold(*wanted)


@contextlib.contextmanager
def short_collections() -> Iterator[None]:
    """Within it the collector looks at `FEW` young objects, and at no others.

    A body of 1 MiB is up to 350,000 objects, none part of a cycle. Rounds over all of them held the
    interpreter for up to 60 ms; where it did not look at all, one of as long came afterwards, over what the
    whole process had made meanwhile.
    """
    usual = gc.get_threshold()
    short = (min(usual[0], FEW), NEVER, NEVER)
    gc.set_threshold(*short)
    try:
        yield
    finally:
        if gc.get_threshold() == short:  # else somebody has set it meanwhile
            gc.set_threshold(*usual)
