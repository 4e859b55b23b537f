"""The labels of the jobs that events are about, for readers who chose by them."""

from collections.abc import Collection, Mapping, Sequence

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.ports.catalogue import Catalogue

KEPT = 10_000
"""Jobs whose labels one reader remembers."""

_CHANGES = frozenset({OccurrenceKind.JOB_CREATED, OccurrenceKind.JOB_UPDATED})


class JobLabels:
    """Knows of jobs whether they have all of `wanted`, each a name and a value.

    They are those that a job has when its event is read for this reader, not when it happened.
    """

    def __init__(self, *, wanted: Collection[tuple[str, str]], catalogue: Catalogue) -> None:
        self._wanted = tuple(wanted)
        self._catalogue = catalogue
        self._known: dict[str, bool] = {}

    async def look_up(self, ahead: Sequence[Occurrence]) -> None:
        """Finds out about the jobs of these, once until they change. Raises StoreUnavailable."""
        jobs = {one.job_id for one in ahead if one.job_id is not None}
        changed = {one.job_id for one in ahead if one.kind in _CHANGES and one.job_id is not None}
        for job_id in changed:
            self._known.pop(job_id, None)
        asked = jobs - self._known.keys()
        if not asked:
            return
        found = await self._catalogue.some(sorted(asked))
        if len(self._known) + len(found) > KEPT:
            self._known = {job_id: self._known[job_id] for job_id in jobs & self._known.keys()}
        self._known |= {job_id: self._fit(entry.labels) for job_id, entry in found.items()}

    def fit(self, job_id: str | None) -> bool:
        """Whether the job has them; what is about no job, or one that is unknown, has not."""
        return job_id is not None and self._known.get(job_id, False)

    def _fit(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self._wanted)
