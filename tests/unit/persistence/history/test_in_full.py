"""One execution in full, bounded; the newest executions of several jobs (SPEC section 10)."""

from typing import Any

import pytest

from scheduler_service.domain.records import AttemptStarted, DeliveryRecord, FeedbackSeen
from scheduler_service.persistence.history.answer_room import (
    BODIES_BYTES,
    MOST_NOTIFICATIONS,
    MOST_RECORDS,
    AnswerRoom,
)
from scheduler_service.persistence.history.shown_records import OLDEST_RECORDS
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, attempt, batch, exchange, execution

pytestmark = pytest.mark.anyio


def feedback(number: int, body: bytes = b"{}", *, execute_number: int = 1) -> FeedbackSeen:
    return FeedbackSeen(execute_number, 1, START + number, body)


async def test_of_an_execution_that_polls_for_days_the_newest_are_shown(file_room: Room) -> None:
    """And how it began; the answer says that some are left out."""
    count = MOST_RECORDS + OLDEST_RECORDS + 100
    begun = batch(1, execution(), AttemptStarted(1, 1, START))
    await write(file_room, begun, *(batch(number, feedback(number)) for number in range(2, count)))
    found: Any = await file_room.reads.execution("default", "u1-1")
    (one,) = found["attempts"]
    assert (found["detail"], one["startedAt"] is not None) == ("partial", True)
    assert len(one["feedback"]) == MOST_RECORDS + OLDEST_RECORDS - 1
    last: Any = await file_room.reads.log("default", "u1-1", limit=count + 1)
    assert one["feedback"][-1]["at"] == last.items[-1]["at"]


async def test_bodies_of_one_answer_are_bounded_together(file_room: Room) -> None:
    """The newest are shown; the others have their lines alone, marked as truncated."""
    body = b'"' + b"x" * 65_533 + b'"'
    count = BODIES_BYTES // len(body) + 10
    await write(file_room, batch(1, execution(), *(feedback(number, body) for number in range(count))))
    found: Any = await file_room.reads.execution("default", "u1-1")
    shown = found["attempts"][0]["feedback"]
    assert (found["detail"], len(shown)) == ("partial", count)
    assert [(one["body"], one["truncated"]) for one in shown[:10]] == [(None, True)] * 10
    assert [one["truncated"] for one in shown[-5:]] == [False] * 5
    assert sum(len(one["body"] or "") for one in shown) <= BODIES_BYTES


async def test_what_is_shown_whole_is_kept(room: Room) -> None:
    """One word says that the answer has all."""
    await write(room, batch(1, execution(), *attempt(1, 1)))
    found: Any = await room.reads.execution("default", "u1-1")
    assert found["detail"] == "kept"


async def test_of_many_notifications_the_newest_are_shown(file_room: Room) -> None:
    """In the order of their creation; their bodies share the room with those of the attempts."""
    told = [
        DeliveryRecord(
            f"d{number}",
            *(1, 1, "progress", "http://n", "delivered"),
            created_at=START + number,
            exchange=exchange(response_body=b"x" * 6_000),
        )
        for number in range(MOST_NOTIFICATIONS + 5)
    ]
    await write(file_room, batch(1, execution()), batch(0, *told))
    found: Any = await file_room.reads.execution("default", "u1-1")
    shown = found["notifications"]
    assert found["detail"] == "partial"
    assert [one["deliveryId"] for one in shown] == [f"d{n}" for n in range(5, MOST_NOTIFICATIONS + 5)]
    assert (shown[0]["response"]["body"], shown[0]["response"]["truncated"]) == (None, True)
    assert len(shown[-1]["response"]["body"]) == 6_000


async def test_one_attempt_alone_has_its_notifications(room: Room) -> None:
    """And what the execution has; one that is not there has none."""
    told = [
        DeliveryRecord(f"d{number}", 1, number, "failed", "http://n", "delivered", created_at=START)
        for number in (1, 2)
    ]
    last = execution(state="terminated", error="500")
    await write(room, *(batch(number, *attempt(1, number, error="500")) for number in (1, 2)))
    await write(room, batch(3, last), batch(0, *told))
    found: Any = await room.reads.execution("default", "u1-1", 1)
    assert [one["requestCounts"] for one in found["attempts"]] == [1]
    assert [one["deliveryId"] for one in found["notifications"]] == ["d1"]
    assert (found["error"], found["detail"]) == ("500", "kept")
    missing: Any = await room.reads.execution("default", "u1-1", 7)
    assert (missing["attempts"], missing["notifications"], missing["state"]) == ([], [], "terminated")


async def some_jobs(room: Room, *sizes: int) -> list[str]:
    """Jobs `j0`, `j1`, …, each with an execution that has a body of that size."""
    for number, size in enumerate(sizes):
        life = {"uid": f"u{number}", "job_id": f"j{number}"}
        body = b'"' + b"x" * size + b'"'
        await write(room, batch(1, execution(), feedback(1, body), **life))
    return [f"j{number}" for number in range(len(sizes))]


async def test_children_are_read_as_long_as_they_fit_whole(file_room: Room) -> None:
    """The first that does not is left to the next page, and whole there."""
    half = BODIES_BYTES // 2
    jobs = ["none", *await some_jobs(file_room, half, half - 1_000, half, 10)]
    first = await file_room.reads.children_latest("default", jobs, room=AnswerRoom(), limit=10)
    assert ([one["jobId"] for one in first.items], first.count) == (["j0", "j1"], 3)
    rest = jobs[first.count :]
    second = await file_room.reads.children_latest("default", rest, room=AnswerRoom(), limit=10)
    assert ([one["jobId"] for one in second.items], second.count) == (["j2", "j3"], 2)
    assert {one["detail"] for one in (*first.items, *second.items)} == {"kept"}


async def test_children_are_read_as_long_as_there_are_records_left(file_room: Room) -> None:
    """One of which no record could be shown is left to the next page."""
    jobs = []
    for number in range(6):
        records = [feedback(one) for one in range(10)]
        await write(file_room, batch(1, execution(), *records, uid=f"u{number}", job_id=f"j{number}"))
        jobs.append(f"j{number}")
    pages = []
    while jobs:
        found = await file_room.reads.children_latest("default", jobs, room=AnswerRoom(records=25), limit=10)
        pages.append([one["detail"] for one in found.items])
        jobs = jobs[found.count :]
    assert pages == [["kept"] * 3] * 2


async def test_a_child_that_is_too_large_for_any_answer_has_a_page_of_its_own(file_room: Room) -> None:
    """It is shown in part: so a page always goes on."""
    jobs = await some_jobs(file_room, BODIES_BYTES + 1, 10)
    found = await file_room.reads.children_latest("default", jobs, room=AnswerRoom(), limit=10)
    assert ([one["detail"] for one in found.items], found.count) == (["partial"], 1)


async def test_children_are_counted(room: Room) -> None:
    """Those without an execution do not count."""
    jobs = ["a", *await some_jobs(room, 1, 1, 1), "z"]
    found = await room.reads.children_latest("default", jobs, room=AnswerRoom(), limit=2)
    assert ([one["jobId"] for one in found.items], found.count) == (["j0", "j1"], 3)
    found = await room.reads.children_latest("default", ["a", "z"], room=AnswerRoom(), limit=0)
    assert (found.items, found.count) == ([], 2)
