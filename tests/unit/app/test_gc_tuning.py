"""Rounds of the collector are short: each holds the interpreter from the loop."""

import gc
from collections.abc import Iterator

import pytest

from scheduler_service.app.gc_tuning import COLLECT_AFTER, freeze_memory

MOST = 5_000
"""Young objects of one round: 0.2 ms, and several on a processor with other work."""


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector of this process as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_a_round_after_the_start_looks_at_few_objects() -> None:
    """What has grown by 50,000 objects was looked at in ten rounds, none of them over what is older."""
    freeze_memory()
    generations: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    gc.callbacks.append(note)
    try:
        grown: list[list[int]] = [[] for _ in range(10 * MOST)]
    finally:
        gc.callbacks.remove(note)
    assert len(grown) / MOST - 1 <= len(generations) <= len(grown) / MOST + 1
    assert set(generations) == {0}


def test_older_objects_are_looked_at_as_seldom() -> None:
    """Once in two million: a round over them is long."""
    assert COLLECT_AFTER[0] * COLLECT_AFTER[1] >= 2_000_000
