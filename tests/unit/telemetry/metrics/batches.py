"""Records of turns for the tests of figures."""

from typing import Any

from scheduler_service.domain.execution import ExecutionState, FiringOutcome, TriggeredBy
from scheduler_service.domain.records import ExecutionRecord, FiringRecord, Record
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.metrics.metric_list import Family, Sample

PLANNED = 1_000_000


def batch(*records: Record, at: int = PLANNED, job_id: str = "one", sequence: int = 1) -> Batch:
    """One turn."""
    return Batch("u", job_id, "default", sequence, at, records)


def execution(state: ExecutionState = ExecutionState.PROCESSING, **members: Any) -> ExecutionRecord:
    """An execution of a timer, planned at `PLANNED`."""
    given = {"execute_number": 1, "triggered_by": TriggeredBy.TIMER, "planned_at": PLANNED} | members
    return ExecutionRecord(revision=1, state=state, created_at=PLANNED, **given)


def fired(number: int = 1, outcome: FiringOutcome = FiringOutcome.FIRED) -> FiringRecord:
    """A firing that has begun."""
    return FiringRecord(PLANNED, outcome, execute_number=number)


def value(samples: list[Sample], family: Family, *labels: str) -> float | None:
    """The value of a sample; None: there is none."""
    found = [one.value for one in samples if (one.family, one.labels) == (family.name, labels)]
    assert len(found) <= 1, (family.name, labels)
    return found[0] if found else None


def buckets(samples: list[Sample], family: Family, *labels: str) -> dict[float, int]:
    """The buckets of a histogram that have something, by their upper bounds."""
    (found,) = [one for one in samples if (one.family, one.labels) == (family.name, labels)]
    bounds = [*family.bounds, float("inf")]
    return {bound: count for bound, count in zip(bounds, found.buckets, strict=True) if count}
