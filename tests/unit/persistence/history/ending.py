"""Executions that have ended, and what is counted of them."""

from typing import Any

from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.day_statistics import DayQuery
from scheduler_service.ports.history import Batch
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.samples import START, batch, execution

TODAY = START // DAY


def ended(number: int, state: str = "succeeded", *, sequence: int | None = None, **changes: Any) -> Batch:
    """The turn that ended an execution: 20 ms late, after 100 ms, one attempt."""
    life = {name: changes.pop(name) for name in ("uid", "job_id", "tenant") if name in changes}
    planned = changes.pop("planned_at", START + number)
    times = {"planned_at": planned, "started_at": planned + 20, "ended_at": planned + 120, "attempt_count": 1}
    return batch(
        number if sequence is None else sequence, execution(number, state, **times | changes), **life
    )


async def days_of(room: Room, *job_ids: str, first: int = TODAY - 500, last: int = TODAY + 500) -> Any:
    """The statistics of these jobs, or the sum over all."""
    jobs = frozenset(job_ids) or None
    return await room.reads.days(DayQuery(tenant="default", first=first, last=last, job_ids=jobs))


async def counted(room: Room, *job_ids: str) -> int:
    """How many executions are in them."""
    number: int = (await days_of(room, *job_ids))["total"]["executions"]
    return number
