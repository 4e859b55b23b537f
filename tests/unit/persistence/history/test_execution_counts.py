"""How many executions there are by state and by error (SPEC section 10)."""

from typing import Any

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, FailureType, TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.persistence.history.examination import FEW_JOBS, MOST_EXAMINED
from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.schema import executions
from scheduler_service.persistence.history.statements import EXECUTIONS
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio
MANY = frozenset({"b", *(f"j{number}" for number in range(FEW_JOBS))})


async def counts(room: Room, *, tenant: str = "default", **filters: Any) -> Any:
    return await room.reads.counts(ExecutionQuery(tenant=tenant, **filters))


def states(found: Any) -> dict[str, int]:
    """Those that there are."""
    return {state: number for state, number in found["byState"].items() if number}


async def write_some(room: Room) -> None:
    """Of two jobs, with two errors; one of another tenant."""
    http, timeout = FailureType.HTTP, FailureType.TIMEOUT
    await write(
        room,
        batch(1, execution(1, "succeeded"), execution(2, "terminated", error="500", failure_type=http)),
        batch(2, execution(3, "terminated", error="500", failure_type=http), uid="u2", job_id="b"),
        batch(3, execution(4, "processing", triggered_by=TriggeredBy.MANUAL), uid="u2", job_id="b"),
        batch(4, execution(5, "terminated", error="timeout", failure_type=timeout)),
        batch(5, execution(9, "terminated", error="500"), uid="u3", job_id="c", tenant="other"),
    )


async def test_executions_are_counted_by_state_and_error(room: Room) -> None:
    """Each state has its number; an error its jobs and its latest execution, the most frequent first."""
    await write_some(room)
    found = await counts(room)
    assert found["total"] == {"value": 5, "isCapped": False}
    assert states(found) == {"succeeded": 1, "terminated": 3, "processing": 1}
    assert list(found["byState"]) == [state.value for state in ExecutionState]
    assert found["byError"] == [
        {
            "error": "500",
            "failureType": "http",
            "count": 2,
            "jobs": 2,
            "latestExecutionId": "u2-3",
            "latestAt": rfc3339(START + 3_000),
        },
        {
            "error": "timeout",
            "failureType": "timeout",
            "count": 1,
            "jobs": 1,
            "latestExecutionId": "u1-5",
            "latestAt": rfc3339(START + 5_000),
        },
    ]
    assert (await counts(room, tenant="nobody"))["total"] == {"value": 0, "isCapped": False}


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"job_id": "b"}, {"terminated": 1, "processing": 1}),
        ({"job_ids": frozenset({"job"})}, {"succeeded": 1, "terminated": 2}),
        (
            {"job_ids": frozenset(f"j{number}" for number in range(300)) | {"b"}},
            {"terminated": 1, "processing": 1},
        ),
        ({"job_ids": frozenset()}, {}),
        ({"job_id": "b", "job_ids": frozenset({"job"})}, {}),
        ({"state": ExecutionState.SUCCEEDED}, {"succeeded": 1}),
        ({"state": ExecutionState.TERMINATED}, {"terminated": 3}),
        ({"error": "500"}, {"terminated": 2}),
        ({"error": "500", "state": ExecutionState.SUCCEEDED}, {}),
        ({"triggered_by": TriggeredBy.MANUAL}, {"processing": 1}),
        ({"planned_from": START + 2_000, "planned_to": START + 3_000}, {"terminated": 2}),
        ({"planned_to": START + 1_000, "job_id": "job"}, {"succeeded": 1}),
    ],
)
async def test_filters_choose_what_is_counted(room: Room, filters: Any, wanted: dict[str, int]) -> None:
    """As they choose what is listed."""
    await write_some(room)
    found = await counts(room, **filters)
    assert states(found) == wanted
    assert found["total"]["value"] == sum(wanted.values())
    listed = await room.reads.executions(ExecutionQuery(tenant="default", **filters))
    assert len(listed.items) == sum(wanted.values())


async def test_the_scheduler_s_own_work_counts_where_it_is_named(room: Room) -> None:
    """As in lists (SPEC section 11)."""
    await write(room, batch(1, execution(1, "succeeded")), batch(2, execution(2), uid="u2", job_id="outbox"))
    reads = HistoryReads(database=room.database, system_jobs=frozenset({"outbox"}))
    every: Any = await reads.counts(ExecutionQuery(tenant="default"))
    own: Any = await reads.counts(ExecutionQuery(tenant="default", job_id="outbox"))
    await reads.close()
    assert (states(every), states(own)) == ({"succeeded": 1}, {"processing": 1})


async def fill(room: Room, number: int) -> None:
    """So many executions that succeeded, after one that failed."""
    await write(room, batch(1, execution(1, "terminated", error="500", planned_at=START), uid="u0"))

    def insert(connection: sa.Connection) -> None:
        columns = (executions.c[name] for name in EXECUTIONS.columns)
        row = connection.execute(sa.select(*columns)).one()._asdict()
        succeeded = row | {"state": "succeeded", "error": None}
        rows = ({**succeeded, "uid": f"u{one}", "planned_at": START + one} for one in range(1, number + 1))
        room.database.dialect.insert_many(connection, EXECUTIONS, [tuple(one.values()) for one in rows])

    await room.writer.perform(insert)


async def test_failures_are_found_however_many_succeed(room: Room) -> None:
    """Only so many executions are looked at, and the answer says so; a filter makes room again."""
    await fill(room, MOST_EXAMINED + 5)
    found = await counts(room)
    assert found["total"] == {"value": MOST_EXAMINED + 2, "isCapped": True}
    assert states(found) == {"succeeded": MOST_EXAMINED + 1, "terminated": 1}
    assert [one["error"] for one in found["byError"]] == ["500"]
    assert (await counts(room, planned_from=START + 6))["total"] == {
        "value": MOST_EXAMINED,
        "isCapped": False,
    }


async def test_no_count_reads_a_table_from_end_to_end(file_room: Room) -> None:
    """Neither of all jobs nor of one: indexes lead to the newest, and the look ends there."""
    await fill(file_room, 500)
    for filters in ({}, {"job_id": "job"}, {"error": "500", "planned_from": START}):
        plans = await explain(file_room, filters)
        assert len(plans) == (1 if "error" in filters else 2)
        for plan in plans:
            assert [step for step in plan if "executions USING INDEX" in step], plan
            assert not [step for step in plan if step.startswith("SCAN executions")], plan


async def explain(room: Room, filters: Any) -> list[list[str]]:
    """How each statement of a count reads the tables."""
    heard: list[tuple[str, Any]] = []

    def hear(_: object, __: object, statement: str, values: Any, *___: object) -> None:
        heard.append((statement, values))

    engine = room.database.dialect.engine
    sa.event.listen(engine, "before_cursor_execute", hear)
    await counts(room, **filters)
    sa.event.remove(engine, "before_cursor_execute", hear)
    asked = [one for one in heard if "FROM executions" in one[0]]
    with room.database.reading() as connection:
        return [
            [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
            for statement, values in asked
        ]
