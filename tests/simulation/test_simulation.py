"""The promises hold in worlds that are drawn from seeds (tests/README.md says how one is replayed)."""

import os
import subprocess
import sys

import pytest

from tests.simulation.__main__ import live
from tests.simulation.seeds import SEEDS
from tests.simulation.trace import tell
from tests.simulation.world import draw

GROUP = 15
USUAL = 90


def groups() -> list[object]:
    """The seeds of the usual run, and the many of the long one."""
    usual = [range(first, first + GROUP) for first in range(0, USUAL, GROUP)]
    long = [range(first, first + 500) for first in range(1_000, 11_000, 500)]
    return [*usual, *(pytest.param(one, marks=[pytest.mark.long, pytest.mark.timeout(900)]) for one in long)]


@pytest.mark.parametrize("seeds", groups(), ids=lambda one: f"{one[0]}..{one[-1]}")
def test_promises_hold_in_all_worlds(seeds: range) -> None:
    """Nothing is missing, doubled, early, lost or unsaid, whatever goes wrong."""
    found = {seed: findings for seed in seeds if (findings := live(draw(seed))[1])}
    assert not found, f"replay with: python -m tests.simulation {min(found)} -v --shrink; {found}"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    """Seeds that have found a defect."""
    assert not live(draw(seed))[1], SEEDS[seed]


def test_a_seed_is_the_same_in_every_process() -> None:
    """Whatever the hashes of strings are, which differ from process to process."""
    seed = 20
    code = f"from tests.simulation.test_simulation import told; print(told({seed}))"
    others = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hashes in ("1", "2")
    ]
    assert set(others) == {told(seed)}


def told(seed: int) -> str:
    """All that happens in a world."""
    return repr(tell(live(draw(seed))[0]))
