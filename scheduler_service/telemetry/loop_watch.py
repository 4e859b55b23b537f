"""Says what held the loop longer than it should be held: one line of the log (decision 28)."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from scheduler_service.pacing.slices import until_tick
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_summaries import LINE_SECONDS, LineWindow
from scheduler_service.telemetry.readiness import Standstills

NoteLag = Callable[[float], None]
"""Takes by how many seconds a beat was late."""


def _note_nothing(_: float) -> None:
    """Where nobody counts it."""


HELD = 0.1
"""Seconds. Whatever holds the loop longer is named: firings are late by as much."""

BEAT = 0.2
"""Seconds between two beats of the loop: half of what an idle process does at all."""

LATE = HELD / 2
"""Seconds. A beat that is so late makes the other thread look."""

DEPTH = 6
THREAD = "loop-watch"


class LoopWatch:
    """Watches one loop: its beats say for how long it was held, and a thread where it stood meanwhile.

    `clock` counts in seconds, `stack` names the functions in which the loop stands, the innermost first.
    Names of functions alone are written, never values. `standstills` remembers each hold, `note_lag` gets the
    delay of every beat.
    """

    def __init__(
        self,
        *,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        stack: Callable[[], Sequence[str]],
        standstills: Standstills | None = None,
        note_lag: NoteLag = _note_nothing,
    ) -> None:
        self._log = log
        self._note_lag = note_lag
        self._standstills = standstills or Standstills(clock=clock)
        self._clock = clock
        self._stack = stack
        self._due = 0.0
        self._plan(clock())
        self._window = LineWindow(seconds=LINE_SECONDS)
        self._seen: tuple[float, Sequence[str]] = (
            0.0,
            (),
        )  # the beat that was late when it was seen, and what

    @property
    def due(self) -> float:
        """When the loop is to beat next, by the clock."""
        return self._due

    def beat(self) -> None:
        """The loop is free: if it was held since this beat was due, that is told."""
        now = self._clock()
        (beat, functions), due = self._seen, self._due
        held = now - due
        self._plan(now)
        self._note_lag(max(0.0, held))
        if held < HELD:
            return
        self._standstills.note(held)
        if self._window.admits(now):
            more = self._window.take_untold()
            self._log(
                "loop_stalled",
                ms=round(held * 1_000),
                functions=list(functions) if beat == due else [],
                more=more,
            )

    def left(self) -> float:
        """Seconds until the loop may be late with its next beat, or again where that was looked at."""
        left = self._due + LATE - self._clock()
        if left > 0:
            return left
        return BEAT + LATE if self._seen[0] == self._due else 0

    def look(self) -> None:
        """Called by another thread: notes where the loop stands, if it is late with its beat.

        The first look after a beat counts: a later one may come when the loop is free, just before the next.
        So of two things that hold it one after the other the first is named, also where it is the shorter.
        """
        due = self._due  # the loop may beat before the stack is read: then it says nothing of that beat
        if self._seen[0] != due and self._clock() - due >= LATE:
            self._seen = (due, self._stack())

    def _plan(self, now: float) -> None:
        self._due = now + until_tick(BEAT, now)


@contextmanager
def watching(
    log: Log, standstills: Standstills | None = None, *, note_lag: NoteLag = _note_nothing
) -> Iterator[None]:
    """Watches the running loop within the block."""
    watch = RunningWatch(log=log, standstills=standstills, note_lag=note_lag)
    try:
        yield
    finally:
        watch.stop()


class RunningWatch:
    """A watch over the running loop, from its making to `stop`, or to the end of the process."""

    def __init__(
        self, *, log: Log, standstills: Standstills | None = None, note_lag: NoteLag = _note_nothing
    ) -> None:
        thread = threading.get_ident()
        self._watch = LoopWatch(
            log=log, stack=lambda: stack_of(thread), standstills=standstills, note_lag=note_lag
        )
        self._loop = asyncio.get_running_loop()
        self._is_ended = False
        self._ended = threading.Lock()  # waited for often: an Event takes five times as long
        self._ended.acquire()
        self._timer = self._loop.call_later(self._watch.due - time.monotonic(), self._beat)
        threading.Thread(target=self._look, name=THREAD, daemon=True).start()

    def stop(self) -> None:
        """Ends it, and its thread; a second call does nothing."""
        self._timer.cancel()
        if not self._is_ended:
            self._is_ended = True
            self._ended.release()

    def _beat(self) -> None:
        self._watch.beat()
        self._timer = self._loop.call_later(self._watch.due - time.monotonic(), self._beat)

    def _look(self) -> None:
        while not self._ended.acquire(timeout=self._watch.left()):
            self._watch.look()


def stack_of(thread: int) -> list[str]:
    """The functions in which a thread stands, as `module.function`, the innermost first."""
    found: list[str] = []
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None and len(found) < DEPTH:
        found.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}")
        frame = frame.f_back
    return found
