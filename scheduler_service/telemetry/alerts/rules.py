"""The alerts of the settings as values: for what, and for which jobs."""

from collections.abc import Mapping

import msgspec

from scheduler_service.domain.occurrences import OccurrenceKind

OF_THE_SERVICE = frozenset(
    {
        OccurrenceKind.INSTANCE_LOST,
        OccurrenceKind.WORKER_LOST,
        OccurrenceKind.NODE_LOST,
        OccurrenceKind.STORE_LOST,
    }
)
"""What happens to no single job: `job_id` and `labels` of a rule say nothing about it."""
SERVICE = "service"
"""The subject of what concerns the service as a whole."""


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. `interval`: so many ms lie between two messages about one subject.

    `overdue`: so many ms a firing may be late. `failing`: so many failures in a row make a job a failing one.
    """

    name: str
    kinds: frozenset[OccurrenceKind]
    job_id: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    interval: int = 60_000
    overdue: int = 60_000
    failing: int = 3

    def is_for(self, job_id: str | None, labels: Mapping[str, str]) -> bool:
        """Whether it is for a job with these labels."""
        if self.job_id is not None and self.job_id != job_id:
            return False
        return all(labels.get(name) == value for name, value in self.labels)
