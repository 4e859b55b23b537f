"""The statistics per day as they are read: by job, by tenant, and the jobs that stand out."""

from typing import Any

import pytest

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.day_reads import DayQuery
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.retention import Retention
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.ending import TODAY, days_of, ended
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START

pytestmark = pytest.mark.anyio


async def write_some(room: Room) -> None:
    """Three days of three jobs, one of them of another tenant, and a system job."""
    failed = {"failure_type": FailureType.TIMEOUT}
    for day in range(3):
        planned = START - day * DAY
        await write(
            room,
            ended(day * 10 + 1, planned_at=planned),
            ended(day * 10 + 2, "terminated", planned_at=planned, **failed),
            ended(day * 10 + 3, planned_at=planned, uid="u2", job_id="slow", ended_at=planned + 9_000),
            ended(day * 10 + 4, planned_at=planned, uid="u3", job_id="other", tenant="elsewhere"),
            ended(day * 10 + 5, "terminated", planned_at=planned, uid="u4", job_id="clean", **failed),
        )


@pytest.mark.parametrize("is_folded", [False, True], ids=["cells", "folded"])
async def test_a_span_is_bounded_by_both_days(room: Room, is_folded: bool) -> None:
    """Both are included, days of which nothing was counted are left out, and folding changes no figure."""
    await write_some(room)
    if is_folded:
        await Retention(writer=room.writer).run(START + 10 * DAY)
    both = await days_of(room, "job", first=TODAY - 1, last=TODAY)
    assert [day["executions"] for day in both["days"]] == [2, 2]
    assert both["total"]["byFailureType"] == {"timeout": 2}
    assert both["total"]["lateness"]["p50"] == 21
    several = await days_of(room, "job", "slow", "other", first=TODAY, last=TODAY)
    assert several["total"]["executions"] == 3
    assert (await days_of(room, "never"))["days"] == []


@pytest.mark.parametrize("is_folded", [False, True], ids=["cells", "folded"])
async def test_the_jobs_that_stand_out_are_named(room: Room, is_folded: bool) -> None:
    """Those that failed most and those that took longest, of the tenant, without the scheduler's own."""
    await write_some(room)
    if is_folded:
        await Retention(writer=room.writer).run(START + DAY)
    reads = HistoryReads(database=room.database, system_jobs=frozenset({"clean"}))
    query = DayQuery(tenant="default", first=TODAY - 2, last=TODAY)
    found: Any = await reads.top(query)
    assert found["failing"] == [{"jobId": "job", "executions": 6, "failed": 3, "failedShare": 0.5}]
    assert [(one["jobId"], one["meanMs"]) for one in found["slowest"]] == [("slow", 8_980), ("job", 100)]
    one_day = DayQuery(tenant="default", first=TODAY, last=TODAY, job_ids=frozenset({"slow"}))
    chosen: Any = await reads.top(one_day)
    await reads.close()
    assert (chosen["failing"], [one["executions"] for one in chosen["slowest"]]) == ([], [1])
