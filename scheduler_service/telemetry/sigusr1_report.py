"""SIGUSR1: the log gets what the process is doing, one line a part, also where its loop stands still."""

import asyncio
import gc
import os
import platform
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from scheduler_service import __version__
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.loop_watch import stack_of

MOST_TASKS = 1_000
"""So many are looked at, for some milliseconds; the others are counted alone."""

MOST_GROUPS = 20
MOST_THREADS = 40
TASK_DEPTH = 4
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
    return (names[0] if names else "?", tuple(names[1:][-TASK_DEPTH:]))


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


PATIENCE_SECONDS = 2.0
"""For the loop, which writes the lines itself: if it does not come to it, the thread says where it stands."""

THREAD = "report-signal"
Parts = Callable[[], Mapping[str, Mapping[str, object]]]
"""The figures of each part, read at once, on the loop's thread."""

Others = Callable[[], Iterable[int]]
"""The ids of the processes to which the signal is passed on; called by another thread."""


class SignalReports:
    """Answers the signal from its making, on the loop that runs then, to `stop`.

    The signal is blocked in this thread, and so in all threads and processes that are started later: a
    thread of its own waits for it. `parts` and `others` may be set once there is more to show.
    """

    def __init__(self, *, log: Log, patience: float = PATIENCE_SECONDS) -> None:
        self.parts: Parts = dict
        self.others: Others = tuple
        self._log = log
        self._patience = patience
        self._began = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._has_ended = False
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        self._thread = threading.Thread(target=self._wait, name=THREAD, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends it; what came meanwhile is dropped."""
        self._has_ended = True
        if self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, signal.SIGUSR1)
        self._thread.join(self._patience)
        while signal.sigtimedwait({signal.SIGUSR1}, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def _wait(self) -> None:
        while True:
            signal.sigwait({signal.SIGUSR1})
            if self._has_ended:
                return
            self._pass_on()
            self._report()

    def _pass_on(self) -> None:
        for process in list(self.others()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGUSR1)

    def _report(self) -> None:
        written = threading.Event()
        threads = describe_threads()
        try:
            self._loop.call_soon_threadsafe(self._write, threads, written)
        except RuntimeError:  # the loop is closed: the process ends
            return
        if not written.wait(self._patience) and not self._has_ended:
            functions = stack_of(self._loop_thread)
            self._log("process_described", part="loop", heldSeconds=self._patience, functions=functions)

    def _write(self, threads: Mapping[str, object], written: threading.Event) -> None:
        found: dict[str, Mapping[str, object]] = {"process": describe_size(self._began)}
        try:
            found.update(self.parts())
            found["tasks"] = describe_tasks(asyncio.all_tasks(self._loop))
            found["threads"] = threads
        finally:
            written.set()
            for part, figures in found.items():
                self._log("process_described", part=part, **figures)
