"""What a process is doing: its tasks, its threads and its size, by names and counts, never values."""

import asyncio
import gc
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from scheduler_service import __version__
from scheduler_service.telemetry.loop_watch import stack_of

MOST_TASKS = 1_000
"""So many are looked at, for some milliseconds; the others are counted alone."""

MOST_GROUPS = 20
MOST_THREADS = 40
DEPTH = 4
"""Functions of a waiting task, the innermost last."""

_DEEPEST = 40
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Group = tuple[str, tuple[str, ...]]


def describe_tasks(tasks: Iterable["asyncio.Task[object]"]) -> dict[str, object]:
    """How many tasks there are, and the most frequent kinds: what they run, and where they wait."""
    known = list(tasks)
    groups: Counter[Group] = Counter(_group_of(task) for task in islice(known, MOST_TASKS))
    return {
        "count": len(known),
        "notLookedAt": max(0, len(known) - MOST_TASKS),
        "groups": [
            {"count": count, "runs": runs, "waits": list(waits)}
            for (runs, waits), count in groups.most_common(MOST_GROUPS)
        ],
    }


def describe_threads() -> dict[str, object]:
    """Each thread with the functions in which it stands now, the innermost first."""
    threads = threading.enumerate()
    shown = [{"name": one.name, "at": stack_of(one.ident or 0)} for one in threads[:MOST_THREADS]]
    return {"count": len(threads), "threads": shown}


def describe_size(began: float) -> dict[str, object]:
    """Versions, age, memory, descriptors and garbage; `began` is the monotonic time of the start."""
    return {
        "pid": os.getpid(),
        "version": __version__,
        "python": platform.python_version(),
        "upSeconds": round(time.monotonic() - began),
        "cpuSeconds": round(time.process_time(), 1),
        "residentMiB": _resident_bytes() >> 20,
        "descriptors": _count_descriptors(),
        "garbage": list(gc.get_count()),
        "frozen": gc.get_freeze_count(),
    }


def _group_of(task: "asyncio.Task[object]") -> Group:
    names: list[str] = []
    inner: object = task.get_coro()
    while inner is not None and len(names) < _DEEPEST:
        code = getattr(inner, "cr_code", None) or getattr(inner, "gi_code", None)
        if code is None:
            break
        names.append(f"{_module_of(inner)}{code.co_qualname}")
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    return (names[0] if names else "?", tuple(names[1:][-DEPTH:]))


def _module_of(coroutine: object) -> str:
    frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
    return "" if frame is None else f"{frame.f_globals.get('__name__', '?')}."


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def _count_descriptors() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a Path for each would be made
    except OSError:
        return None
