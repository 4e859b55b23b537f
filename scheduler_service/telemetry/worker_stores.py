"""Remembers which worker processes cannot write their files."""

from collections.abc import Sequence

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind

STORE, HISTORY = "store", "history"
LOST, BACK = OccurrenceKind.STORE_LOST, OccurrenceKind.STORE_BACK
_OF_PROCESS = frozenset({OccurrenceKind.WORKER_LOST, OccurrenceKind.WORKER_BACK})


class WorkerStores:
    """Knows it from what they tell (`hosts.processes.occurrence_relay`), which is always brought here.

    One that is started again begins with its files at hand.
    """

    def __init__(self) -> None:
        self._lost: set[tuple[str, str]] = set()

    def take(self, occurrence: Occurrence) -> None:
        """Takes what happens to the service (`telemetry.occurrences.Take`)."""
        whose, _, part = (occurrence.subject or "").partition("/")
        if occurrence.kind is LOST:
            self._lost.add((whose, part or STORE))
        elif occurrence.kind is BACK:
            self._lost.discard((whose, part or STORE))
        elif occurrence.kind in _OF_PROCESS:
            self._lost = {one for one in self._lost if one[0] != _subject(whose)}

    def lacks(self, worker: int) -> Sequence[str]:
        """What of `store` and `history` this process cannot write."""
        return [part for part in (STORE, HISTORY) if (_subject(worker), part) in self._lost]

    def name(self, part: str, workers: int) -> Sequence[str]:
        """The processes that cannot write this part, of so many, as readiness names them."""
        numbers = range(1, workers + 1)
        return [f"{part} of worker process {number}" for number in numbers if part in self.lacks(number)]


def _subject(worker: int | str) -> str:
    return f"worker {worker}"
