"""The figures of /stats (SPEC section 10)."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_service.domain.execution import TriggeredBy
from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.persistence.history.reads import HistoryReads
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
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


async def test_threads_read_within_what_they_are_given(room: Room) -> None:
    """As `short_turns`: while they read, the loop gets the interpreter sooner."""
    heard: list[str] = []

    @contextlib.contextmanager
    def reading() -> Iterator[None]:
        heard.append(threading.current_thread().name)
        yield
        heard.append("end")

    reads = HistoryReads(database=room.database, reading=reading)
    await reads.statistics("default", START)
    await reads.close()
    assert len(heard) == 2
    assert heard[0].startswith("history-reader")


async def test_statistics_are_a_few_reads_of_indexes(file_room: Room) -> None:
    """However many executions there are: not one statement a minute, and minutes by ranges of an index."""
    await write(file_room, *(batch(n, execution(n, "succeeded")) for n in range(1, 50)))
    engine = file_room.database.dialect.engine
    with heard(engine) as statements:
        await file_room.reads.statistics("default", START)
    asked = [one for one in statements if "FROM executions" in one[0]]
    assert len(asked) == 4
    with file_room.database.reading() as connection:
        for statement, values in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            steps = [row[3] for row in plan if "executions" in row[3]]
            assert steps, statement
            assert all(step.startswith("SEARCH") and "USING" in step for step in steps), steps
