"""The statistics per day: what is counted, how it is read, folded and removed."""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.execution import FailureType, TriggeredBy
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.day_statistics import (
    WINDOW_ROWS,
    DayQuery,
    bucket_of,
    fold_days,
    least_in,
    middle_of,
    percentile,
    spread,
    write_day,
)
from scheduler_service.persistence.history.history_reads import HistoryReads
from scheduler_service.persistence.history.retention import Retention
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.errors import StoreUnavailable
from tests.fault_points import Breaking
from tests.unit.persistence.history.conftest import MakeRoom, Room
from tests.unit.persistence.history.reading import TODAY, count, counted, days_of, ended, write
from tests.unit.persistence.history.samples import START, batch, execution

DURATIONS = st.integers(0, 2**45)


@given(DURATIONS)
def test_a_duration_lies_in_its_bucket(milliseconds: int) -> None:
    """From its least one to that of the next one."""
    bucket = bucket_of(milliseconds)
    assert least_in(bucket) <= milliseconds < least_in(bucket + 1)


@given(DURATIONS)
def test_the_middle_is_wrong_by_an_eighth_at_most(milliseconds: int) -> None:
    """The error that docs/api.md states."""
    assert abs(middle_of(bucket_of(milliseconds)) - milliseconds) * 8 <= milliseconds


def test_the_buckets_are_these_for_ever() -> None:
    """They are on disk: whoever changes them changes what old days say."""
    begins = [least_in(bucket) for bucket in range(18)]
    assert begins == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]
    assert (bucket_of(86_400_000), bucket_of(-5)) == (101, 0)


@given(st.lists(DURATIONS, min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_nearest_rank_in_its_bucket(found: list[int], percent: int) -> None:
    """As one that is taken of the durations themselves, but for the width of a bucket; of nothing none."""
    exact = sorted(found)[-(-len(found) * percent // 100) - 1]
    assert percentile(Counter(found), percent) == exact
    told = spread(Counter(map(bucket_of, found)), [percent])
    assert told == {f"p{percent}": middle_of(bucket_of(exact)), "max": middle_of(bucket_of(max(found)))}
    assert spread({}, [percent]) == {f"p{percent}": None, "max": None}


async def test_an_execution_is_counted_when_it_ends(room: Room) -> None:
    """Outcome, failure type, attempts, lateness and duration, by the day of the planned moment."""
    tomorrow = (TODAY + 1) * DAY
    await write(
        room,
        ended(1),
        ended(2, "terminated", failure_type=FailureType.HTTP, attempt_count=3, ended_at=START + 5_022),
        ended(3, "cancelled", failure_type=FailureType.CANCELLED, triggered_by=TriggeredBy.MANUAL),
        ended(4, "skipped", started_at=None, attempt_count=0),
        ended(5, planned_at=tomorrow - 1),
        ended(6, planned_at=tomorrow),
        batch(7, execution(7)),
    )
    found = await days_of(room, "job")
    assert [(day["day"], day["executions"]) for day in found["days"]] == [
        (write_day(TODAY), 5), (write_day(TODAY + 1), 1),
    ]  # fmt: skip
    first = found["days"][0]
    assert first["byOutcome"] == {"succeeded": 2, "terminated": 1, "cancelled": 1, "skipped": 1}
    assert first["byFailureType"] == {"http": 1, "cancelled": 1}
    assert first["attempts"] == 6
    assert first["lateness"] == {"p50": 21, "p90": 21, "p95": 21, "p99": 21, "max": 21, "mean": 20}
    high = dict.fromkeys(("p90", "p95", "p99", "max"), 4_607)
    assert first["duration"] == {"p50": 103, **high, "mean": 1_325}
    assert found["total"]["executions"] == 6


async def test_a_repetition_counts_nothing(room: Room) -> None:
    """The turn again, alone and among new ones, and turns that come after its end."""
    await write(room, batch(1, execution(1)), ended(1, sequence=2))
    await write(room, ended(1, sequence=2))
    await write(room, ended(1, sequence=2), ended(2, sequence=3), batch(4, execution(3)))
    await write(room, ended(1, "terminated", sequence=9), ended(3, sequence=5))
    assert await counted(room, "job") == 3
    assert await counted(room) == 3
    assert (await days_of(room))["total"]["byOutcome"]["succeeded"] == 3


async def test_an_end_that_comes_before_its_beginning_counts(room: Room) -> None:
    """As where a node ends what another one began, and writes first."""
    await write(room, ended(1, sequence=2))
    await write(room, batch(1, execution(1)))
    assert await counted(room) == 1


@pytest.mark.parametrize("url", ["file", "postgresql", "mariadb"], indirect=True)
async def test_a_commit_without_an_answer_counts_once(make_room: MakeRoom, url: str) -> None:
    """What is written is written again, since it may not have been: the executions are counted once."""
    room = make_room(url, faults=Breaking("after history.commit", StoreUnavailable("the answer was lost")))
    for number in range(1, 51):
        room.writer.append(ended(number), durable=True)
    with pytest.raises(StoreUnavailable):
        await room.writer.flush()
    room.writer.append(ended(51), durable=True)
    await room.writer.flush()
    assert await counted(room, "job") == 51
    assert await counted(room) == 51


async def test_nodes_that_write_the_same_at_once_count_it_once(rooms: tuple[Room, Room]) -> None:
    """Two nodes with the same turns, in other loads and another order, over and over: none waits for ever."""
    for turn in range(5):
        numbers = range(1 + 40 * turn, 41 + 40 * turn)
        turns = [ended(number, uid=f"u{number:03}", job_id=f"job-{number % 7}") for number in numbers]
        for one, other in zip(turns, reversed(turns), strict=True):
            rooms[0].writer.append(one, durable=True)
            rooms[1].writer.append(other, durable=True)
        await asyncio.gather(*(room.writer.flush() for room in rooms))
    assert await counted(rooms[0]) == 200
    assert await counted(rooms[1], *(f"job-{rest}" for rest in range(7))) == 200
    assert [room.troubles for room in rooms] == [[], []]


async def test_the_scheduler_s_own_work_is_not_in_the_sum(file_room: Room) -> None:
    """Its jobs have statistics of their own (SPEC section 11)."""
    writer = HistoryWriter(
        database=file_room.database,
        on_written=lambda _: None,
        on_trouble=lambda _: None,
        system_jobs=frozenset({"clean"}),
    )
    writer.append(ended(1), durable=False)
    writer.append(ended(2, uid="u2", job_id="clean"), durable=False)
    await writer.flush()
    await writer.close()
    assert await counted(file_room) == 1
    assert await counted(file_room, "clean") == 1


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
            ended(day * 10 + 4, planned_at=planned, uid="u3", job_id="elsewhere|other", tenant="elsewhere"),
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
    several = await days_of(room, "job", "slow", "elsewhere|other", first=TODAY, last=TODAY)
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
    elsewhere: Any = await reads.top(DayQuery(tenant="elsewhere", first=TODAY - 2, last=TODAY))
    await reads.close()
    assert [(one["jobId"], one["executions"]) for one in elsewhere["slowest"]] == [("other", 3)]
    assert (chosen["failing"], [one["executions"] for one in chosen["slowest"]]) == ([], [1])


async def test_days_that_are_over_become_a_row_each(room: Room) -> None:
    """In as many steps as it takes, of which each adds to the last; figures stay as they were."""
    number = 0
    for job in range(3):
        for bucket in range(WINDOW_ROWS // 2):
            number += 1
            times = {
                "planned_at": START,
                "started_at": START + (1 << (bucket % 30)),
                "ended_at": START + 2**31 + bucket**4,
            }
            room.writer.append(ended(number, uid=f"u{job}", job_id=f"job-{job}", **times), durable=False)
    await room.writer.flush()
    before = [await days_of(room), await days_of(room, "job-1")]
    assert await count(room, "statistic_cells") > WINDOW_ROWS
    await Retention(writer=room.writer).run(START + 2 * DAY)
    assert (await count(room, "statistic_cells"), await count(room, "statistic_days")) == (0, 4)
    assert [await days_of(room), await days_of(room, "job-1")] == before


async def test_what_comes_late_is_added(room: Room) -> None:
    """An execution that ends days after its moment belongs to its day, folded or not."""
    retention = Retention(writer=room.writer)
    await write(room, ended(1))
    await retention.run(START + 2 * DAY)
    await write(room, ended(2, "terminated", ended_at=START + 2 * DAY))
    assert await counted(room, "job") == 2
    await retention.run(START + 3 * DAY)
    assert (await count(room, "statistic_cells"), await count(room, "statistic_days")) == (0, 2)
    assert (await days_of(room, "job"))["total"]["byOutcome"]["terminated"] == 1
    assert await counted(room) == 2


async def test_today_and_yesterday_are_not_folded(room: Room) -> None:
    """They are written to all the time."""
    await write(room, ended(1), ended(2, planned_at=START - DAY), ended(3, planned_at=START - 2 * DAY))
    await Retention(writer=room.writer).run(START)
    assert (await count(room, "statistic_cells"), await count(room, "statistic_days")) == (4, 2)


async def test_statistics_outlive_the_executions_by_a_time_of_their_own(room: Room) -> None:
    """Executions go after their days, the statistics after `statistics_days`, folded or not (section 12)."""
    for number, age in ((1, 0), (2, 29), (3, 30), (4, 31), (5, 400)):
        await write(room, ended(number, planned_at=START - age * DAY))
    retention = Retention(writer=room.writer, count=0, statistics_days=30)
    await retention.run(START)
    assert await count(room, "executions") == 1
    assert await counted(room, "job") == await counted(room) == 3
    await retention.run(START + 365 * DAY)
    assert [await count(room, name) for name in ("executions", "statistic_cells", "statistic_days")] == [
        0
    ] * 3


async def test_a_clean_of_destroyed_jobs_leaves_their_statistics(room: Room) -> None:
    """They go by their own age (decision 35)."""
    await write(room, ended(1, uid="gone", job_id="old"))
    await Retention(writer=room.writer).clean(retain=0, destroyed=["gone"], tenant="default")
    assert await count(room, "executions") == 0
    assert await counted(room, "old") == 1


async def test_a_cell_that_grows_while_it_is_folded_is_folded_whole(rooms: tuple[Room, Room]) -> None:
    """What is deleted is what is added up, also where another node adds to it meanwhile."""
    await write(rooms[0], ended(1))
    with rooms[0].database.writing() as connection:
        connection.execute(sa.text("UPDATE statistic_cells SET executions = executions + 1"))
        folding = asyncio.ensure_future(
            rooms[1].writer.perform(partial(fold_days, rooms[1].database.dialect, 2**31))
        )
        await until_one_waits(connection)
    assert await folding == 2
    assert await counted(rooms[0], "job") == 2


async def until_one_waits(connection: sa.Connection) -> None:
    """Returns when another connection waits for a lock of this one."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    if connection.dialect.name != "postgresql":
        # Tables of locks are kept for those who ask again within 0.1 s; this is not.
        waiting = (
            "SELECT CAST(variable_value AS INTEGER) FROM information_schema.global_status "
            "WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
        )
    async with asyncio.timeout(10):
        while not connection.execute(sa.text(waiting)).scalar_one():
            await asyncio.to_thread(lambda: None)
