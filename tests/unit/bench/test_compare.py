"""Punctual's part of the comparison, from the command to the table."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT

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
