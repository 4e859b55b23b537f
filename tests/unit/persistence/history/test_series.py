"""Executions by buckets of time (SPEC section 10)."""

from functools import partial
from typing import Any

import pytest

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import DAY, MINUTE, rfc3339
from scheduler_service.persistence.history.queries import ExecutionQuery, SeriesQuery
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.retention import Retention
from scheduler_service.persistence.history.slot_counts import SLOT, SLOT_DAYS
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.ending import ended
from tests.unit.persistence.history.reading import count, write
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio
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


@pytest.mark.parametrize("filters", [{}, {"job_id": "job"}, {"job_ids": frozenset({"job", "x"})}])
async def test_buckets_count_what_was_planned_in_them(room: Room, filters: Any) -> None:
    """From the counts by slots as from the executions themselves; live ones too, empty buckets too."""
    await write_some(room)
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
    assert (last["byState"], last["latenessMs"], last["durationMs"]["max"]) == ({"succeeded": 1}, NOTHING, 6)
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


async def test_slots_go_in_small_steps(room: Room) -> None:
    """The writer's thread is not held by many of them."""
    await write(room, *(ended(n, planned_at=BEGIN + n * SLOT, sequence=n) for n in range(300)))
    oldest = BEGIN // SLOT + 1_000
    folding = room.writer.folding
    removed = [await room.writer.perform(partial(folding.remove_slots, oldest)) for _ in range(3)]
    assert removed == [500, 400, 0]
