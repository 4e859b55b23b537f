"""What the operating system says of this process: its age, memory, CPU and descriptors."""

import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.samples import Sample

_PROC = Path("/proc/self")
START_TIME = 22
"""The field of `/proc/PID/stat` with the moment of the start, in ticks since the boot (proc(5))."""


class OwnProcess:
    """Reads the figures of the process that made it; `started` is its beginning in seconds since 1970."""

    def __init__(self, *, started: float | None = None) -> None:
        self._started = time.time() if started is None else started

    def read(self) -> Sequence[Sample]:
        """Memory and descriptors only where the system says them. Blocks for some milliseconds."""
        return list(self._samples())

    def _samples(self) -> Iterator[Sample]:
        used = os.times()
        yield Sample(families.PROCESS_START.name, (), self._started)
        yield Sample(families.PROCESS_CPU.name, (), used.user + used.system)
        yield Sample(families.PROCESS_MAX_FDS.name, (), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        try:
            pages = int((_PROC / "statm").read_text().split()[1])
            descriptors = sum(1 for _ in (_PROC / "fd").iterdir()) - 1  # without the one of this reading
        except OSError:
            return
        yield Sample(families.PROCESS_MEMORY.name, (), pages * resource.getpagesize())
        yield Sample(families.PROCESS_FDS.name, (), descriptors)


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
