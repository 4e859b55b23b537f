"""How many executions and notifications there are, and the latest of many jobs (SPEC section 10)."""

from typing import Any

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import DeliveryState, ExecutionState, FailureType, TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import DeliveryRecord
from scheduler_service.persistence.history.history_counts import FEW_JOBS, MOST_EXAMINED
from scheduler_service.persistence.history.history_reads import HistoryReads
from scheduler_service.persistence.history.queries import DeliveryQuery, ExecutionQuery
from scheduler_service.persistence.history.row_merging import EXECUTIONS
from scheduler_service.persistence.history.schema import executions
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import plans, write
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


FILTERS: list[tuple[dict[str, Any], dict[str, int]]] = [
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
]


async def test_filters_choose_what_is_counted(room: Room) -> None:
    """As they choose what is listed."""
    await write_some(room)
    for filters, wanted in FILTERS:
        found = await counts(room, **filters)
        assert (states(found), found["total"]["value"]) == (wanted, sum(wanted.values())), filters
        listed = await room.reads.executions(ExecutionQuery(tenant="default", **filters))
        assert len(listed.items) == sum(wanted.values()), filters


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
        with heard(file_room.database.dialect.engine) as statements:
            await counts(file_room, **filters)
        found = plans(file_room, statements, "executions")
        assert len(found) == (1 if "error" in filters else 2)
        for plan in found:
            assert [step for step in plan if "executions USING INDEX" in step], plan
            assert not [step for step in plan if step.startswith("SCAN executions")], plan


def delivery(number: int, state: str, event: str = "succeed") -> DeliveryRecord:
    return DeliveryRecord(f"d{number}", 1, 1, event, "http://127.0.0.1/n", state, created_at=START + number)


async def delivery_counts(room: Room, *, tenant: str = "default", **filters: Any) -> Any:
    return await room.reads.delivery_counts(DeliveryQuery(tenant=tenant, **filters))


async def test_deliveries_are_counted_by_state(room: Room) -> None:
    """Each state has its number, with the filters of the list; those of another tenant are not counted."""
    await write(
        room,
        batch(0, delivery(1, "delivered"), delivery(2, "outbox"), delivery(3, "pending")),
        batch(0, delivery(4, "failed", "finalFailed"), uid="u2", job_id="other"),
        batch(0, delivery(5, "outbox"), uid="u3", job_id="far", tenant="far"),
    )
    found = await delivery_counts(room)
    assert found["total"] == {"value": 4, "isCapped": False}
    assert list(found["byState"]) == [state.value for state in DeliveryState]
    assert states(found) == {"delivered": 1, "outbox": 1, "pending": 1, "failed": 1}
    assert states(await delivery_counts(room, job_id="other")) == {"failed": 1}
    assert states(await delivery_counts(room, event="succeed")) == {"delivered": 1, "outbox": 1, "pending": 1}
    assert states(await delivery_counts(room, state="outbox")) == {"outbox": 1}
    assert states(await delivery_counts(room, tenant="far")) == {"outbox": 1}
    assert (await delivery_counts(room, tenant="nobody"))["total"]["value"] == 0


async def test_one_that_was_delivered_after_all_is_counted_once(room: Room) -> None:
    """It was in the outbox before, and both looks meet it."""
    await write(room, batch(0, delivery(1, "outbox")), batch(1, delivery(1, "delivered")))
    assert states(await delivery_counts(room)) == {"delivered": 1}


async def test_the_outbox_is_found_however_many_were_delivered(room: Room) -> None:
    """So many are looked at; more are said."""
    await write(room, batch(0, delivery(0, "outbox")))
    await write(room, batch(1, *(delivery(one, "delivered") for one in range(1, MOST_EXAMINED + 2))))
    found = await delivery_counts(room)
    assert found["total"] == {"value": MOST_EXAMINED + 2, "isCapped": True}
    assert found["byState"]["outbox"] == 1


async def test_no_count_of_deliveries_reads_a_table_from_end_to_end(file_room: Room) -> None:
    """Both looks follow an index."""
    await write(file_room, batch(0, delivery(1, "outbox"), delivery(2, "delivered")))
    with heard(file_room.database.dialect.engine) as statements:
        await delivery_counts(file_room, job_id="job")
    (plan,) = plans(file_room, statements, "deliveries")
    assert len([step for step in plan if "deliveries USING INDEX" in step]) == 2, plan


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
    with heard(file_room.database.dialect.engine) as statements:
        await outcomes(file_room, *(f"j{number}" for number in range(100)), "a")
    (plan,) = plans(file_room, statements, "executions")
    assert any("executions USING INDEX executions_of_job (tenant=? AND job_id=?)" in one for one in plan)
    assert not [one for one in plan if "SCAN executions" in one]


async def test_a_number_of_an_earlier_life_reads_no_execution_but_by_keys(file_room: Room) -> None:
    """However many executions the lives of the job had."""
    for number in (1, 2, 3):
        await write(file_room, batch(1, execution(number, "succeeded"), job_id="a", uid=f"life{number}"))
    with heard(file_room.database.dialect.engine) as statements:
        assert await file_room.reads.life_of("default", "a", 1) == "life1"
    found = plans(file_room, statements, "executions")
    assert len(found) == 3 + 3 + 2
    assert all(one[0].startswith("SEARCH executions USING") for one in found), found
