"""Which rules are for a job: by its id and by its labels."""

from collections.abc import Mapping, Sequence
from math import inf

from scheduler_service.domain.occurrences import Occurrence
from scheduler_service.ports.alerts import Noted
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.telemetry.alerts.rules import AlertRule

Labels = Mapping[str, Mapping[str, str]]
NONE: Mapping[str, str] = {}


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
) -> list[Noted]:
    """Those that the rule is for; what happened from `new_since` on is known not to be noted yet."""
    return [
        Noted(
            alert=rule.name,
            subject=str(one.job_id),
            occurrence=one,
            lasts=lasts,
            is_new=one.at >= new_since,
        )
        for one in found
        if rule.is_for(one.job_id, labels.get(str(one.job_id), NONE))
    ]
