"""How long this process has been running, as the kernel counts it."""

import os
import time
from contextlib import suppress
from pathlib import Path

START_TIME = 22
"""The field of `/proc/PID/stat` with the moment of the start, in ticks since the boot (proc(5))."""


def process_age() -> int:
    """Milliseconds since the start of this process; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError, AttributeError):
        # The second field is the name in parentheses, which may hold anything.
        fields = (
            Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        started = int(fields[START_TIME - 3]) / os.sysconf("SC_CLK_TCK")
        return max(0, round((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1_000))
    return 0
