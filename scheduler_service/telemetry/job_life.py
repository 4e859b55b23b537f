"""Makes occurrences of what a turn has changed about a job itself: created, paused, destroyed."""

from collections.abc import Callable, Iterator

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.telemetry.occurrences import Occurrences


class JobLife:
    """Publishes the changes between two catalogue entries of a job; `wall` gives wall ms.

    No record says them, and the store alone does not know the entry before: turns show both.
    """

    def __init__(self, *, occurrences: Occurrences, wall: Callable[[], int]) -> None:
        self._occurrences = occurrences
        self._wall = wall

    def observe(self, before: CatalogueEntry | None, after: CatalogueEntry) -> None:
        """A turn made `after` of `before` (`hosts.host_parts.ObserveJob`). Never raises."""
        occurrences = self._occurrences
        if occurrences.are_wanted and not (before is not None and _is_alike(before, after)):
            for kind in changes_of(before, after):
                occurrences.publish(
                    Occurrence(
                        kind=kind,
                        at=self._wall(),
                        tenant=after.tenant,
                        job_id=after.job_id,
                        uid=after.uid,
                        state=after.state.value,
                        revision=after.revision,
                    )
                )


def _is_alike(before: CatalogueEntry, after: CatalogueEntry) -> bool:
    """Whether the turn was about executions alone, as most are."""
    return before.state is after.state and before.revision == after.revision and before.uid == after.uid


def changes_of(before: CatalogueEntry | None, after: CatalogueEntry) -> Iterator[OccurrenceKind]:
    """What happened to the job, in order. `before` None: there was no such job."""
    old = None if before is None or before.state is JobState.DESTROYED else before
    if after.state is JobState.DESTROYED:
        if old is not None:
            yield OccurrenceKind.JOB_DESTROYED
        return
    if old is None or old.uid != after.uid:
        yield OccurrenceKind.JOB_CREATED
        return
    if old.revision != after.revision:
        yield OccurrenceKind.JOB_UPDATED
    if old.state is not after.state:
        yield from _change_of_state(old, after)


def _change_of_state(old: CatalogueEntry, after: CatalogueEntry) -> Iterator[OccurrenceKind]:
    match after.state:
        case JobState.PAUSED:
            yield OccurrenceKind.JOB_PAUSED
        case JobState.FINISHED:
            yield OccurrenceKind.JOB_FINISHED
        case JobState.ACTIVE if old.state is JobState.PAUSED or old.revision == after.revision:
            # A finished job that gets another timer is updated, and not resumed.
            yield OccurrenceKind.JOB_RESUMED
