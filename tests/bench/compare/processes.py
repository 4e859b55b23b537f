"""Processes of the comparison: on which cores they run, what they use, and how they end."""

import contextlib
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Cores:
    """Where the scheduler runs, and where all else: target, store servers, clients, this program."""

    scheduler: tuple[int, ...]
    others: tuple[int, ...]


def find_cores() -> Cores:
    """All cores for the scheduler, all but the last for the others.

    So a scheduler whose store is within its process has as many cores for both as one whose store is a
    server, and one core is the scheduler's alone.
    """
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(scheduler=tuple(allowed), others=tuple(allowed[:-1] or allowed))


@contextlib.contextmanager
def started(
    command: Sequence[str], cores: Iterable[int], /, ending: signal.Signals = signal.SIGTERM, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own, on these cores, with pipes of text; gone afterwards with its group."""
    process = subprocess.Popen(
        command,
        text=True,
        start_new_session=True,
        preexec_fn=_pin(tuple(cores)),
        **{"cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **options},
    )
    try:
        yield process
    finally:
        _end(process, ending)


def cpu_seconds(root: int) -> float:
    """What a process and all below it have used, those that have ended included."""
    below, ticks = defaultdict(list), {}
    for pid, parent, used in _processes():
        below[parent].append(pid)
        ticks[pid] = used
    tree, found = [root], 0
    while tree:
        pid = tree.pop()
        found += ticks.get(pid, 0)
        tree += below[pid]
    return found / TICKS


def busy_seconds() -> float:
    """What all processes of the machine have used together."""
    user, nice, system, _, _, irq, soft, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, irq, soft))) / TICKS


def _processes() -> Iterator[tuple[int, int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                yield int(folder.name), int(fields[1]), sum(map(int, fields[11:15]))


def _pin(cores: tuple[int, ...]) -> Callable[[], None]:
    return lambda: os.sched_setaffinity(0, cores)


def _end(process: subprocess.Popen[str], ending: signal.Signals) -> None:
    process.send_signal(ending)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with contextlib.suppress(ProcessLookupError):  # what it has left behind
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
