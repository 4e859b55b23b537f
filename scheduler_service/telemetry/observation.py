"""Shows the records of each turn to those who watch the process: metrics, log lines, occurrences, traces."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from scheduler_service.ports.history import Batch, History
from scheduler_service.telemetry.decorators import PortDecorators
from scheduler_service.telemetry.tally import Tally


class RecordObserver(Protocol):
    """Sees the records of each turn, in the order of each job's turns, on the event loop's thread.

    They are masked already, and hold what `history.detail` keeps: with `none` executions, firings and
    deliveries alone. After a crash those that the history did not have are shown once more: at least once.
    """

    def __call__(self, batch: Batch) -> None:
        """Takes a look: some microseconds at most, since the turn waits. What it raises is logged."""


class ObservedHistory:
    """A history whose records `observers` see as well (`ports.history.History`)."""

    def __init__(self, *, history: History, observers: Sequence[RecordObserver], failed: Tally) -> None:
        self._history = history
        self._observers = tuple(observers)
        self._failed = failed
        self.flush = history.flush
        self.close = history.close

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Appends the records, then shows them; an observer that fails stops nothing."""
        self._history.append(batch, durable=durable)
        for observe in self._observers:
            try:
                observe(batch)
            except Exception as error:  # noqa: BLE001 - what watches may not harm what is watched
                self._failed.count("times", error=f"{type(error).__name__}: {error}")


def observed(
    decorators: PortDecorators, observers: Sequence[RecordObserver], *, failed: Tally
) -> PortDecorators:
    """`decorators` with `observers` in front of the history; without any, `decorators` as they are."""
    if not observers:
        return decorators

    def observe(history: History) -> History:
        return ObservedHistory(history=decorators.history(history), observers=observers, failed=failed)

    return msgspec.structs.replace(decorators, history=observe)
