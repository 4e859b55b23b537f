"""What large blocks took goes back to the system, also where small ones between them stay."""

import ctypes
import subprocess
import sys

import pytest

MIB = 1 << 20
PROGRAM = """
from pathlib import Path
from scheduler_service.app.heap_tuning import return_large_blocks

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
