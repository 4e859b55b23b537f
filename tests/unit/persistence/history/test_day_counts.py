"""What the writer counts: each execution once, on its day, whatever is repeated."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.execution import FailureType, TriggeredBy
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.day_counts import (
    bucket_of,
    least_in,
    middle_of,
    percentile,
    spread,
)
from scheduler_service.persistence.history.day_statistics import write_day
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.persistence.history.conftest import MakeRoom, Room
from tests.unit.persistence.history.ending import TODAY, counted, days_of, ended
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio
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


class Lost:
    """Loses the answer of the first commit: it is durable, and nobody knows."""

    is_told = False

    def before(self, point: str) -> None:
        """Nothing has happened yet."""

    def after(self, point: str) -> None:
        """The connection breaks here."""
        if not self.is_told:
            self.is_told = True
            raise StoreUnavailable("the answer was lost")


@pytest.mark.parametrize("url", ["file", "postgresql", "mariadb"], indirect=True)
async def test_a_commit_without_an_answer_counts_once(make_room: MakeRoom, url: str) -> None:
    """What is written is written again, since it may not have been: the executions are counted once."""
    room = make_room(url, faults=Lost())
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
