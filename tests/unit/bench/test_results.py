"""What the arrivals of a run say; lines that programs print, medians over runs, and ratios."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.compare.results import Figures, Run, find_figures, parse_event, ratio, summarise
from tests.rows import each_row
from tests.unit.docs.pages import ROOT


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


def figures(rate: float | None, lost: int = 0) -> Figures:
    """Those of a run at this rate."""
    late = 1_000 / rate if rate else None
    return Figures(10 - lost, lost, doubled=0, early=0, rate=rate, p50=late, p99=late, worst=late)


def test_an_event_is_read() -> None:
    """One JSON object with the name of the event."""
    line = '{"event": "ready", "created": 10, "seconds": 0.5}\n'
    assert parse_event(line) == {"event": "ready", "created": 10, "seconds": 0.5}


@each_row("line", ["", "celery@host v5", "{", "[1]", "7", '{"created": 10}', '{"event": 3}'])
def test_what_else_a_program_prints_is_no_event(line: str) -> None:
    """Banners and warnings go by."""
    assert parse_event(line) is None


def test_medians_are_taken_of_runs_that_ended() -> None:
    """A run that failed does not count; the slowest and the fastest are told."""
    rates = (300.0, 100.0, 200.0)
    runs = [Run("x", "herd", created=rate, figures=figures(rate), cpu_us=rate) for rate in rates]
    found = summarise([*runs, Run("x", "herd", problem="it ended with 1")])
    assert found is not None
    assert (found.runs, found.rate, found.slowest, found.fastest) == (3, 200.0, 100.0, 300.0)
    assert (found.created, found.cpu_us, found.p50) == (200.0, 200.0, 5.0)


def test_the_worst_run_counts_for_what_is_lost() -> None:
    """A median would hide it."""
    found = summarise([Run("x", "herd", figures=figures(10.0, lost=lost)) for lost in (0, 0, 2)])
    assert found is not None
    assert found.lost == 2


def test_a_ratio_says_how_many_times_ours_is() -> None:
    """And nothing where one of the two is missing or zero."""
    assert ratio(300.0, 100.0) == 3.0
    assert ratio(None, 100.0) is None
    assert ratio(300.0, None) is None
    assert ratio(300.0, 0.0) is None


COMMAND = (sys.executable, "-m", "tests.bench.compare")


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the comparison reads /proc and pins processes to cores")
def test_a_tiny_herd_runs_from_end_to_end(tmp_path: Path) -> None:
    """Every job arrives once, at or after its moment, and the history has it."""
    output = tmp_path / "table.md"
    asked = ("--only", "punctual-1", "--works", "herd", "--herd", "20", "--runs", "1", "-o", str(output))
    ended = subprocess.run(
        [*COMMAND, *asked], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 0, ended.stderr
    row = re.search(r"^\| Punctual, qos 1 \| (.+) \|$", output.read_text(), re.MULTILINE)
    assert row, ended.stderr
    rate, *_, lost, doubled, early = row[1].split(" | ")
    assert float(rate.replace(",", "")) > 0
    assert (lost, doubled, early) == ("0", "0", "0")
    assert "recorded 20" in ended.stderr
