"""The figures of /stats, and executions by buckets of time (SPEC section 10)."""

from typing import Any

import pytest

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import DAY, MINUTE, rfc3339
from scheduler_service.persistence.history.day_statistics import SLOT, SLOT_DAYS
from scheduler_service.persistence.history.history_reads import HistoryReads
from scheduler_service.persistence.history.queries import ExecutionQuery, SeriesQuery
from scheduler_service.persistence.history.retention import Retention
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import count, ended, plans, write
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio


async def test_statistics_of_the_last_hour(room: Room) -> None:
    """SPEC section 10: `byState`, `lateness` and `perMinute` of /stats."""
    now = START + 200_000
    timely = [execution(n, "succeeded", started_at=START + n * 1_000 + n) for n in range(1, 101)]
    await write(
        room,
        *(batch(n, record) for n, record in enumerate(timely)),
        batch(200, execution(150, "terminated", triggered_by=TriggeredBy.MANUAL, started_at=now)),
        batch(201, execution(151, "succeeded", created_at=now - 3_600_001)),
    )
    found: Any = await room.reads.statistics("default", now)
    assert found["byState"]["succeeded"] == 100
    assert found["byState"]["terminated"] == 1
    assert found["byState"]["processing"] == 0
    assert found["lateness"] == {"p50": 50, "p99": 99, "max": 100}
    assert len(found["perMinute"]) == 60
    assert sum(minute["total"] for minute in found["perMinute"]) == 101
    assert sum(minute["failed"] for minute in found["perMinute"]) == 1
    assert await room.reads.begun("default", now) == 2, "the last two, one of which was put off until then"
    empty: Any = await room.reads.statistics("elsewhere", now)
    assert empty["lateness"] == {"p50": None, "p99": None, "max": None}


async def test_the_scheduler_s_own_work_is_apart(room: Room) -> None:
    """Executions of system jobs show where they are asked for, and count nowhere (SPEC section 11)."""
    own = [batch(n, execution(n, "succeeded"), uid="u2", job_id="outbox") for n in (1, 2)]
    failed = batch(3, execution(3, "terminated", started_at=START), uid="u2", job_id="outbox")
    await write(room, batch(1, execution(1, "succeeded")), *own, failed)
    reads = HistoryReads(database=room.database, system_jobs=frozenset({"outbox"}))
    listed = await reads.executions(ExecutionQuery(tenant="default"))
    asked = await reads.executions(ExecutionQuery(tenant="default", job_id="outbox"))
    figures: Any = await reads.statistics("default", START)
    await reads.close()
    assert [one["jobId"] for one in listed.items] == ["job"]
    assert [one["executeNumber"] for one in asked.items] == [3, 2, 1]
    assert (figures["byState"]["succeeded"], figures["byState"]["terminated"]) == (1, 0)
    assert sum(minute["total"] for minute in figures["perMinute"]) == 1
    assert figures["lateness"]["max"] is None


async def test_latenesses_are_counted_by_the_database(room: Room) -> None:
    """Nearest ranks over all executions, however many are as late; one that began early was not late."""
    late = [-3] * 50 + [0] * 20 + [7] * 28 + [30, 100]
    moments = (execution(n, "succeeded", started_at=START + n * 1_000 + ms) for n, ms in enumerate(late, 1))
    await write(room, *(batch(n, record) for n, record in enumerate(moments)))
    found: Any = await room.reads.statistics("default", START + 200_000)
    assert found["lateness"] == {"p50": 0, "p99": 30, "max": 100}


async def test_statistics_are_a_few_reads_of_indexes(file_room: Room) -> None:
    """However many executions there are: not one statement a minute, and minutes by ranges of an index."""
    await write(file_room, *(batch(n, execution(n, "succeeded")) for n in range(1, 50)))
    engine = file_room.database.dialect.engine
    with heard(engine) as statements:
        await file_room.reads.statistics("default", START)
    asked = plans(file_room, statements, "executions")
    assert len(asked) == 4
    for plan in asked:
        steps = [step for step in plan if "executions" in step]
        assert steps
        assert all(step.startswith("SEARCH") and "USING" in step for step in steps), steps


BEGIN = START - START % (10 * MINUTE)
NOTHING = {"p50": None, "p99": None, "max": None}


async def series(room: Room, *, width: int = 10 * MINUTE, tenant: str = "default", **filters: Any) -> Any:
    """Half an hour."""
    query = SeriesQuery(
        executions=ExecutionQuery(tenant=tenant, **filters),
        first=BEGIN,
        last=BEGIN + 30 * MINUTE - 1,
        width=width,
    )
    return await room.reads.series(query)


async def write_some(room: Room) -> None:
    """Two that ended in the first bucket, one in the last, one that runs, one before, another tenant's."""
    first, last = BEGIN + 1, BEGIN + 30 * MINUTE - 1
    await write(
        room,
        ended(1, planned_at=first, started_at=first + 4, ended_at=first + 9),
        ended(2, "terminated", planned_at=first, started_at=first + 7, ended_at=first + 8, error="500"),
        ended(3, planned_at=last, triggered_by=TriggeredBy.MANUAL, started_at=last, ended_at=last + 6),
        batch(4, execution(4, planned_at=BEGIN + 15 * MINUTE)),
        ended(5, planned_at=BEGIN - 1),
        ended(6, planned_at=first, uid="u9", job_id="b", tenant="other"),
    )


async def test_buckets_count_what_was_planned_in_them(room: Room) -> None:
    """From the counts by slots as from the executions themselves; live ones too, empty buckets too."""
    await write_some(room)
    asked: list[dict[str, Any]] = [{}, {"job_id": "job"}, {"job_ids": frozenset({"job", "x"})}]
    for filters in asked:
        found = await series(room, **filters)
        assert (found["isCapped"], found["examinedFrom"]) == (False, None)
        first, middle, last = found["buckets"]
        assert first == {
            "from": rfc3339(BEGIN),
            "byState": {"succeeded": 1, "terminated": 1},
            "latenessMs": {"p50": 4, "p99": 7, "max": 7},
            "durationMs": {"p50": 1, "p95": 5, "max": 5},
        }
        assert (middle["from"], middle["byState"]) == (rfc3339(BEGIN + 10 * MINUTE), {"processing": 1})
        assert (middle["latenessMs"], middle["durationMs"]["max"]) == (NOTHING, None)
        assert (last["byState"], last["latenessMs"]) == ({"succeeded": 1}, NOTHING)
        assert last["durationMs"]["max"] == 6
        assert len((await series(room, width=SLOT, **filters))["buckets"]) == 6


async def test_filters_choose_what_is_in_a_series(room: Room) -> None:
    """As they choose what is listed; another tenant's are not seen."""
    await write_some(room)
    for filters, wanted in (
        ({"state": ExecutionState.TERMINATED}, [{"terminated": 1}, {}, {}]),
        ({"triggered_by": TriggeredBy.MANUAL}, [{}, {}, {"succeeded": 1}]),
        ({"error": "500"}, [{"terminated": 1}, {}, {}]),
        ({"tenant": "other"}, [{"succeeded": 1}, {}, {}]),
        ({"tenant": "nobody"}, [{}, {}, {}]),
        ({"job_id": "nobody"}, [{}, {}, {}]),
    ):
        assert [one["byState"] for one in (await series(room, **filters))["buckets"]] == wanted


async def test_an_execution_is_counted_once(room: Room) -> None:
    """When it ends, however often that is written; the scheduler's own work is not."""
    await write(room, batch(1, execution(1, planned_at=BEGIN)))
    for _ in range(2):
        await write(room, ended(1, planned_at=BEGIN, sequence=2))
    own = HistoryReads(database=room.database, system_jobs=frozenset({"job"}))
    assert (await series(room))["buckets"][0]["byState"] == {"succeeded": 1}
    await write(room, batch(3, execution(2, planned_at=BEGIN)))
    query = SeriesQuery(executions=ExecutionQuery(tenant="default"), first=BEGIN, last=BEGIN, width=SLOT)
    hidden: Any = await own.series(query)
    await own.close()
    assert hidden["buckets"][0]["byState"] == {"succeeded": 1}


async def test_slots_are_kept_for_days(room: Room) -> None:
    """Whatever is kept of the executions; then they go."""
    await write(room, ended(1, planned_at=BEGIN))
    retention = Retention(writer=room.writer)
    await retention.run(BEGIN + SLOT_DAYS * DAY)
    assert await count(room, "statistic_slots") == 3
    await retention.run(BEGIN + (SLOT_DAYS + 1) * DAY)
    assert await count(room, "statistic_slots") == 0
