"""Who sees what turns and calls have come to: the place of metrics and traces."""

from collections.abc import Callable

from scheduler_service.domain.wire import Outcome
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch, History
from scheduler_service.ports.sending import Sender
from scheduler_service.telemetry.log_summaries import Tally

ObserveJob = Callable[[CatalogueEntry | None, CatalogueEntry], None]
"""Sees what each durable turn has made of a job's entry, at some nanoseconds while nobody listens.

The entry before it, None: there was no such job, and the one after it. Never raises, never waits.
"""


def observe_no_job(before: CatalogueEntry | None, after: CatalogueEntry) -> None:
    """Looks at nothing."""


ObserveCall = Callable[[Outcome], None]
"""Sees how each request that left the process ended. Never raises, never waits."""

WrapSender = Callable[[Sender], Sender]
"""Puts another sender in front of that which makes every call."""


RecordObserver = Callable[[Batch], None]
"""Sees the records of each turn, in the order of each job's turns, on the event loop's thread.

They are masked already, and hold what `history.detail` keeps: with `none` executions, firings and deliveries
alone. After a crash those that the history did not have are shown once more: at least once. It takes some
microseconds at most, since the turn waits. What it raises is logged.
"""

RecordCount = Callable[[Batch], bool]
"""Counts the records of every turn, in the one pass that a turn in which all goes well pays for.

Says whether something in it ended badly, was missed or was given up.
"""


class TurnObservers:
    """Who sees the records of the turns of a process. `count` sees each, `troubles` where it says trouble.

    What others add sees each turn between these two, and costs nothing while it is not added.
    """

    def __init__(self, *, count: RecordCount, troubles: RecordObserver, failed: Tally) -> None:
        self._count = count
        self._troubles = troubles
        self._others: tuple[RecordObserver, ...] = ()
        self._failed = failed

    def observe(self, batch: Batch) -> None:
        """Shows the records; one that fails is logged, and stops nobody."""
        try:
            has_trouble = self._count(batch)
        except Exception as error:  # noqa: BLE001 - what watches may not harm what is watched
            self._fail(error)
            has_trouble = True
        for observe in self._others:
            self._show(observe, batch)
        if has_trouble:
            self._show(self._troubles, batch)

    def add(self, observer: RecordObserver) -> None:
        """Shows it every later turn."""
        self._others = (*self._others, observer)

    def remove(self, observer: RecordObserver) -> None:
        """Shows it no more; does nothing where it was not added."""
        self._others = tuple(one for one in self._others if one != observer)

    def _show(self, observe: RecordObserver, batch: Batch) -> None:
        try:
            observe(batch)
        except Exception as error:  # noqa: BLE001 - what watches may not harm what is watched
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failed.count("times", error=f"{type(error).__name__}: {error}")


class ObservedHistory:
    """A history whose records `observers` see as well (`ports.history.History`)."""

    def __init__(self, *, history: History, observers: TurnObservers) -> None:
        self._append = history.append
        self._observe = observers.observe
        self.is_behind = history.is_behind
        self.flush = history.flush
        self.dismiss_lost = history.dismiss_lost
        self.close = history.close

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Appends the records, then shows them."""
        self._append(batch, durable=durable)
        self._observe(batch)
