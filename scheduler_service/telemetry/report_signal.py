"""SIGUSR1: the log gets what the process is doing, one line a part, also where its loop stands still."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from scheduler_service.ports.log import Log
from scheduler_service.telemetry.loop_watch import stack_of
from scheduler_service.telemetry.process_report import describe_size, describe_tasks, describe_threads

PATIENCE_SECONDS = 2.0
"""For the loop, which writes the lines itself: if it does not come to it, the thread says where it stands."""

THREAD = "report-signal"
Parts = Callable[[], Mapping[str, Mapping[str, object]]]
"""The figures of each part, read at once, on the loop's thread."""

Others = Callable[[], Iterable[int]]
"""The ids of the processes to which the signal is passed on; called by another thread."""


def no_parts() -> Mapping[str, Mapping[str, object]]:
    """Nothing has been built yet."""
    return {}


def no_others() -> Iterable[int]:
    """This process is alone."""
    return ()


class SignalReports:
    """Answers the signal from its making, on the loop that runs then, to `stop`.

    The signal is blocked in this thread, and so in all threads and processes that are started later: a
    thread of its own waits for it. `parts` and `others` may be set once there is more to show.
    """

    def __init__(self, *, log: Log, patience: float = PATIENCE_SECONDS) -> None:
        self.parts: Parts = no_parts
        self.others: Others = no_others
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
