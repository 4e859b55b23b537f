"""The alerts of the settings as values: for what, and for which jobs."""

from collections.abc import Mapping, Sequence
from math import inf

import msgspec

from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.ports.alerts import AlertOccasion
from scheduler_service.ports.catalogue import Catalogue

OF_THE_SERVICE = frozenset(
    {
        OccurrenceKind.INSTANCE_LOST,
        OccurrenceKind.WORKER_LOST,
        OccurrenceKind.NODE_LOST,
        OccurrenceKind.STORE_LOST,
        OccurrenceKind.LIMIT_REACHED,
    }
)
"""What happens to no single job: `job_id` and `labels` of a rule say nothing about it."""
SERVICE = "service"
"""The subject of what concerns the service as a whole."""
Labels = Mapping[str, Mapping[str, str]]
NONE: Mapping[str, str] = {}


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. `interval`: so many ms lie between two messages about one subject.

    `overdue`: so many ms a firing may be late. `failing`: so many failures in a row make a job a failing one.
    Alerts with the same `channel` share the messages of a minute.
    """

    name: str
    kinds: frozenset[OccurrenceKind]
    job_id: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    interval: int = 60_000
    overdue: int = 60_000
    failing: int = 3
    channel: str = ""

    def is_for(self, job_id: str | None, labels: Mapping[str, str]) -> bool:
        """Whether it is for a job with these labels."""
        if self.job_id is not None and self.job_id != job_id:
            return False
        return all(labels.get(name) == value for name, value in self.labels)


async def find_labels(
    catalogue: Catalogue, rules: Sequence[AlertRule], found: Sequence[Occurrence]
) -> Labels:
    """The labels of the jobs of these, where a rule asks for labels. Raises StoreUnavailable."""
    if not found or not any(rule.labels for rule in rules):
        return {}
    entries = await catalogue.some(sorted({one.job_id for one in found if one.job_id is not None}))
    return {job_id: entry.labels for job_id, entry in entries.items()}


def note_all(
    rule: AlertRule,
    found: Sequence[Occurrence],
    labels: Labels,
    *,
    lasts: bool = False,
    new_since: float = inf,
) -> list[AlertOccasion]:
    """Those that the rule is for; what happened from `new_since` on is known not to be noted yet."""
    return [
        AlertOccasion(
            alert=rule.name,
            subject=str(one.job_id),
            occurrence=one,
            lasts=lasts,
            is_new=one.at >= new_since,
        )
        for one in found
        if rule.is_for(one.job_id, labels.get(str(one.job_id), NONE))
    ]
