"""Counts the groups that a store's one writer has written: their sizes, their time, what failed."""

from collections.abc import Iterator, Sequence

from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.samples import Histogram, Sample

Verdict = object
"""The outcome of an item: its result, or the error that its future raises."""

STATE = "state"


class GroupFigures:
    """Figures of one writer, which alone calls `note`; they may be read from another thread."""

    def __init__(self) -> None:
        self._sizes = Histogram(families.COMMIT_SIZE)
        self._seconds = Histogram(families.COMMIT_DURATION)
        self._failed = 0
        self._is_failing = False

    def note(self, verdicts: Sequence[Verdict], seconds: float) -> None:
        """One more group. What another writer was first with is no failure of the store."""
        failed = 0
        if verdicts.count(None) < len(verdicts):
            failed = sum(isinstance(verdict, (StoreUnavailable, StoreUncertain)) for verdict in verdicts)
        self._failed += failed
        self._is_failing = failed > 0
        self._sizes.observe(len(verdicts))
        self._seconds.observe(seconds)

    def samples(self, *, is_away: bool = False) -> Iterator[Sample]:
        """All figures; the store is up if its latest group was written, and it is not `is_away`."""
        yield self._sizes.sample()
        yield self._seconds.sample()
        yield Sample(families.STORE_ERRORS.name, (STATE,), self._failed)
        yield Sample(families.STORE_UP.name, (STATE,), int(not (self._is_failing or is_away)))
