"""What the arrivals of a run say: counts, lateness, rates."""

import pytest

from tests.bench.compare.figures import find_figures


def test_a_run_without_fault_has_its_lateness_and_rate() -> None:
    """Lateness is arrival minus moment; the rate counts from the first moment to the last arrival."""
    arrivals = [(f"job-{n}", "", 1_000.0 + n) for n in range(1, 101)]
    found = find_figures(arrivals, {f"job-{n}": 1_000.0 for n in range(1, 101)}, steps=1)
    assert (found.completed, found.lost, found.doubled, found.early) == (100, 0, 0, 0)
    assert (found.p50, found.p99, found.worst) == (51.0, 100.0, 100.0)
    assert found.rate == pytest.approx(1_000)


def test_what_did_not_come_or_came_twice_or_early_is_counted() -> None:
    """Half a millisecond early is the clocks' own, more is early; a stranger's arrival counts for nothing."""
    planned = {"lost": 1_000.0, "twice": 1_000.0, "early": 1_000.0, "close": 1_000.0}
    arrivals = [("twice", "", 1_001.0), ("twice", "", 1_002.0), ("early", "", 999.0), ("close", "", 999.6)]
    found = find_figures([*arrivals, ("stranger", "", 5_000.0)], planned, steps=1)
    assert (found.completed, found.lost, found.doubled, found.early) == (3, 1, 1, 1)
    assert found.worst == 1.0


def test_a_chain_is_complete_with_its_last_step() -> None:
    """Its lateness is that of its first step; one that has not had all steps is lost."""
    arrivals = [("whole", "", 1_001.0), ("whole", "", 1_010.0), ("whole", "", 1_020.0), ("cut", "", 1_005.0)]
    found = find_figures(arrivals, {"whole": 1_000.0, "cut": 1_000.0}, steps=3)
    assert (found.completed, found.lost, found.doubled) == (1, 1, 0)
    assert (found.rate, found.worst) == (pytest.approx(50), 5.0)
