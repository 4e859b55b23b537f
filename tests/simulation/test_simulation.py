"""The promises hold in worlds that are drawn from seeds (tests/README.md says how one is replayed)."""

import os
import subprocess
import sys

import pytest

from tests.simulation.__main__ import PLACEMENTS, is_broken, live
from tests.simulation.mutants import MUTANTS
from tests.simulation.seeds import SEEDS
from tests.simulation.trace import tell
from tests.simulation.world import draw

GROUP = 6
FEW = 2
MOST_SEEDS = 400
SOON_FOUND = {
    ("alone", "claims of qos 0 are kept in memory alone"),
    ("alone", "a call that is sent again has other words"),
    ("alone", "a retry comes too early"),
    ("alone", "missed firings are not recorded"),
    ("siblings", "answers are kept in memory alone"),
    ("siblings", "alarms of what is in memory are not set"),
    ("siblings", "each process recovers the jobs of all"),
}

REPLAYED = {("alone", 249), ("siblings", 357), ("dapr", 22000562)}
"""One of each placement in the usual run: the defects have tests on their floors."""


def groups() -> list[object]:
    """Placements, and the seeds that they live through in the usual run; many more in the long one."""
    usual = [("alone", range(GROUP)), ("siblings", range(GROUP)), ("dapr", range(FEW))]
    long = [("alone", range(first, first + 500)) for first in range(1_000, 11_000, 500)]
    long += [("siblings", range(first, first + 500)) for first in range(1_000, 6_000, 500)]
    long += [("dapr", range(first, first + 100)) for first in range(1_000, 2_000, 100)]
    marks = [pytest.mark.long, pytest.mark.timeout(900)]
    return [*usual, *(pytest.param(*one, marks=marks) for one in long)]


def mutants() -> list[object]:
    """Those that a few seeds find, and the others."""
    long = [pytest.mark.long, pytest.mark.timeout(600)]
    planted = [(placement, name) for name, mutant in MUTANTS.items() for placement in mutant.placements]
    return [pytest.param(*one, marks=() if one in SOON_FOUND else long) for one in planted]


@pytest.mark.parametrize(("placement", "seeds"), groups())
def test_promises_hold_in_all_worlds(placement: str, seeds: range) -> None:
    """Nothing is missing, doubled, early, lost or unsaid, whatever goes wrong."""
    found = {seed: findings for seed in seeds if (findings := live(draw(seed), placement)[1])}
    replay = f"python -m tests.simulation {min(found, default=0)} --placement {placement} -v --shrink"
    assert not found, f"replay with: {replay}; {found}"


@pytest.mark.parametrize(
    ("placement", "seed"),
    [one if one in REPLAYED else pytest.param(*one, marks=pytest.mark.long) for one in SEEDS],
)
def test_what_was_found_once_stays_mended(placement: str, seed: int) -> None:
    """Seeds that have found a defect."""
    assert not live(draw(seed), placement)[1], SEEDS[placement, seed]


@pytest.mark.parametrize(("placement", "name"), mutants())
def test_planted_bugs_are_found(placement: str, name: str) -> None:
    """By the promise that each breaks: else the other tests here would say nothing."""
    mutant = MUTANTS[name]
    with mutant.planted():
        found = (seed for seed in range(MOST_SEEDS) if is_broken(draw(seed), mutant.promise, placement))
        assert next(found, None) is not None, f"not one of {MOST_SEEDS} seeds finds it"


def test_a_seed_is_the_same_in_every_process() -> None:
    """Whatever the hashes of strings are, which differ from process to process."""
    seed = 16
    code = f"from tests.simulation.test_simulation import told; print(told({seed}))"
    hashes = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": hashes},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == told(seed)


def told(seed: int) -> str:
    """All that happens in the worlds of a seed."""
    return repr([tell(live(draw(seed), placement)[0]) for placement in PLACEMENTS])
