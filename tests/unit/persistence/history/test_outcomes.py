"""The latest executions of many jobs in one question (SPEC section 10)."""

from typing import Any

import pytest

from scheduler_service.domain.moments import rfc3339
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio


async def outcomes(room: Room, *job_ids: str, count: int = 20, tenant: str = "default") -> Any:
    return await room.reads.outcomes(tenant, job_ids, count)


async def test_each_job_has_its_newest_executions(room: Room) -> None:
    """The newest last, also one that has not ended; another tenant's, or none, are no executions."""
    runs = [execution(n, "succeeded", started_at=START, ended_at=START) for n in (1, 2, 3)]
    await write(
        room,
        *(batch(n, run, uid="u1", job_id="a") for n, run in enumerate(runs)),
        batch(9, execution(7, "processing"), uid="u2", job_id="b"),
        batch(9, execution(8, "succeeded"), uid="u3", job_id="c", tenant="other"),
    )
    found = await outcomes(room, "b", "a", "c", "none", count=2)
    assert list(found) == ["b", "a", "c", "none"]
    assert [[one["executeNumber"] for one in some] for some in found.values()] == [[7], [2, 3], [], []]
    assert [one["executeNumber"] for one in (await outcomes(room, "c", tenant="other"))["c"]] == [8]
    assert await outcomes(room) == {}


async def test_an_outcome_has_every_member(room: Room) -> None:
    """SPEC section 10; what has not begun has neither times nor their difference."""
    times = {"planned_at": START, "started_at": START + 3, "ended_at": START + 1_250}
    failed = execution(1, "terminated", error="500", created_at=START, **times)
    await write(room, batch(1, failed, execution(2, "skipped", created_at=START, ended_at=START + 9)))
    brief, skipped = (await outcomes(room, "job"))["job"]
    assert brief == {
        "executionId": "u1-1",
        "executeNumber": 1,
        "state": "terminated",
        "error": "500",
        "startedAt": rfc3339(START + 3),
        "endedAt": rfc3339(START + 1_250),
        "durationMs": 1_247,
        "latenessMs": 3,
    }
    assert (skipped["executeNumber"], skipped["startedAt"], skipped["durationMs"]) == (2, None, None)
    assert (skipped["endedAt"], skipped["latenessMs"]) == (rfc3339(START + 9), None)


async def test_the_index_of_each_job_is_read_from_its_end(file_room: Room) -> None:
    """One statement for a page of jobs, and none of its parts reads a table from end to end."""
    await write(file_room, batch(1, execution(1, "succeeded"), job_id="a"))
    engine = file_room.database.dialect.engine
    with heard(engine) as statements:
        await outcomes(file_room, *(f"j{number}" for number in range(100)), "a")
    ((statement, values),) = [one for one in statements if "FROM executions" in one[0]]
    with file_room.database.reading() as connection:
        plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert any("executions USING INDEX executions_of_job (tenant=? AND job_id=?)" in one for one in plan)
    assert not [one for one in plan if "SCAN executions" in one]
