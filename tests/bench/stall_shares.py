"""Whose doing it was that a thread did not go on: its own, that of others in its process, or the kernel."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MS = 1_000_000
TASKS = Path("/proc/self/task")
LOOKS = 100
"""After so many readings it is looked which threads there are."""


class Share(NamedTuple):
    """What became of a gap, in ms.

    `ours`: what is left of it without the time that the kernel had the thread wait for a processor, and
    without that in which it had another thread wait meanwhile, as far as this one waited for it. `most` is
    the same without the second: that thread may not have been the one waited for. `busy`: at work itself.
    """

    held: float = 0.0
    busy: float = 0.0
    ours: float = 0.0
    most: float = 0.0
    threads: str = ""

    def join(self, other: "Share") -> "Share":
        """The larger of each figure, and the threads of the one with more of `ours`."""
        worse = self if self.ours >= other.ours else other
        figures = (max(pair) for pair in zip(self[:4], other[:4], strict=True))
        return Share(*figures, worse.threads)


class Threads:
    """The threads of this process, as the one that made this sees them; read between its own steps."""

    def __init__(self) -> None:
        self._own = threading.get_native_id()
        self._files: dict[int, int] = {}
        self._reads = 0
        self._last: dict[int, tuple[int, int]] = {}
        self.read()

    def read(self) -> dict[int, tuple[int, int]]:
        """For each thread how long it ran, and waited for a processor, since the last reading, in ns."""
        if self._reads % LOOKS == 0:
            self._look()
        self._reads += 1
        now = dict(self._figures())
        last, self._last = self._last, now
        return {
            tid: (run - last[tid][0], wait - last[tid][1]) for tid, (run, wait) in now.items() if tid in last
        }

    def share(self, held: float) -> Share:
        """Of a gap of `held` ms since the last reading."""
        read = self.read()
        busy, delayed = (value / MS for value in read.pop(self._own))
        others = max((wait / MS for _, wait in read.values()), default=0.0)
        most = max(held - delayed, 0.0)
        waited = max(most - busy, 0.0)
        return Share(held, busy, most - min(waited, others), most, self._names(read) if held > 5 else "")

    def _names(self, read: dict[int, tuple[int, int]]) -> str:
        found = sorted(read.items(), key=lambda item: -item[1][0])[:3]
        return ", ".join(f"{self._name(tid)} {run / MS:.1f}+{wait / MS:.1f}" for tid, (run, wait) in found)

    def _name(self, tid: int) -> str:
        return next((one.name for one in threading.enumerate() if one.native_id == tid), str(tid))

    def _look(self) -> None:
        there = {int(path.name) for path in TASKS.iterdir()}
        for tid in self._files.keys() - there:
            os.close(self._files.pop(tid))
        for tid in there - self._files.keys():
            with contextlib.suppress(OSError):
                self._files[tid] = os.open(TASKS / str(tid) / "schedstat", os.O_RDONLY)

    def _figures(self) -> Iterator[tuple[int, tuple[int, int]]]:
        for tid, file in self._files.items():
            with contextlib.suppress(OSError):
                run, wait, _ = os.pread(file, 64, 0).split()
                yield tid, (int(run), int(wait))
