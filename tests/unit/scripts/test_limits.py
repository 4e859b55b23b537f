"""What the suite makes of a test that ran into its limit of time."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SWALLOWS = """
import time

import pytest


@pytest.mark.timeout(3)
def test_goes_on_after_its_limit():
    try:
        while True:
            time.sleep(0.01)
    except BaseException:
        pass


def test_ends_in_time():
    pass
"""


def test_a_test_that_outlives_its_limit_has_failed(tmp_path: Path) -> None:
    """Also one that swallows what tells it so: it would be slow for ever, and nobody would see."""
    (tmp_path / "test_slow.py").write_text(SWALLOWS)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-c", "/dev/null"]
    ended = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)], capture_output=True, text=True
    )
    assert ended.returncode == 1, ended.stdout
    assert "1 failed, 1 passed" in ended.stdout
    assert "its limit of 3 s" in ended.stdout
