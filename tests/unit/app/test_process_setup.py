"""The limit of descriptors, and what they are shared out to."""

import ctypes
import gc
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_service.app.process_setup import (
    LEAST_CALLS,
    MOST_USEFUL,
    RESERVED,
    DescriptorShares,
    current_limit,
    divide,
    freeze_memory,
    raise_limit,
)
from scheduler_service.pacing.interpreter import FEW
from scheduler_service.settings import SettingsError
from tests.rows import each_row

LOW = 1_000


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit, over a soft one of 1,000 that is put back afterwards."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LOW, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def test_the_soft_limit_becomes_the_hard_one(hard: int) -> None:
    """As far as it is of use; the log says so, with numbers."""
    lines: list[tuple[str, dict[str, Any]]] = []
    limit = raise_limit(lambda event, **keys: lines.append((event, keys)))
    assert limit == current_limit() == (MOST_USEFUL if hard < 0 else min(hard, MOST_USEFUL))
    [(event, keys)] = lines
    assert event == "descriptors_set"
    assert {"limit": limit, "before": LOW, "hard": hard}.items() <= keys.items()
    assert ("note" in keys) is (limit < 1_024)


@each_row(
    ("limit", "listeners", "shares"),
    [
        (256, 1, DescriptorShares(RESERVED, 64, 96)),
        (1_024, 1, DescriptorShares(RESERVED, 256, 672)),
        (1_024, 0, DescriptorShares(RESERVED, 256, 928)),
        (65_536, 1, DescriptorShares(RESERVED, 16_384, 49_056)),
        (1_024, 2, DescriptorShares(RESERVED, 128, 672)),
        (64, 1, DescriptorShares(32, 16, 16)),
        (16, 1, DescriptorShares(8, 4, LEAST_CALLS)),
    ],
)
def test_each_part_has_its_share(limit: int, listeners: int, shares: DescriptorShares) -> None:
    """Callers of the API cannot take what calls need, nor calls what the API and the files need."""
    assert divide(limit, listeners=listeners) == shares


def test_the_callers_share_may_be_set() -> None:
    """As far as calls keep something; else the error says how many there may be."""
    assert divide(256, connections=20) == DescriptorShares(RESERVED, 20, 140)
    assert divide(256, connections=144) == DescriptorShares(RESERVED, 144, 16)
    with pytest.raises(SettingsError, match=r"limits\.connections = 145: of the 256 .* set 144 or less"):
        divide(256, connections=145)
    with pytest.raises(SettingsError, match=r"set 72 or less"):
        divide(256, connections=100, listeners=2)


def test_a_start_is_frozen() -> None:
    """Rounds are over what comes after it, and few."""
    thresholds, callbacks = gc.get_threshold(), gc.callbacks[:]
    try:
        freeze_memory()
        assert gc.get_freeze_count() > 1_000
        assert sum(gc.get_count()) < FEW
        assert gc.get_threshold()[0] == FEW
    finally:
        gc.callbacks[:] = callbacks
        gc.set_threshold(*thresholds)


MIB = 1 << 20
PROGRAM = """
from pathlib import Path
from scheduler_service.app.process_setup import return_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

return_large_blocks()
before = resident()
for _ in range(3):  # a block that was free once is taken from the heap the next time
    large = bytes(b"x" * (8 << 20))
    del large
large, small = [], []
for number in range(64):
    large.append(b"x" * ((1 << 20) + number))
    small.append(b"x" * (3_000 + number))
del large
print(resident() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="another C library")
def test_large_blocks_go_back() -> None:
    """64 MiB of them, with small ones between: without it 60 stay."""
    kept = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert int(kept.stdout) < 8 * MIB


def test_lines_of_libraries_have_what_is_bound() -> None:
    """In a process of its own, since there is one log of libraries in each."""
    script = (
        "import logging; from scheduler_service.app.process_setup import log_of; "
        "from scheduler_service.settings import Settings; "
        "log = log_of(Settings(), worker=2); logging.getLogger('lib').warning('trouble'); log.flush()"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    (line,) = map(json.loads, ran.stderr.splitlines())
    assert (line["event"], line["logger"], line["worker"]) == ("library_warned", "lib", 2)
