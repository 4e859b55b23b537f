"""The log of an execution, in order of time (SPEC section 10)."""

import pytest

from scheduler_service.domain.execution import TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import DeliveryRecord, DeliveryTry, FeedbackSeen, Noted
from scheduler_service.persistence.history.answer_budget import MOST_NOTIFICATIONS
from scheduler_service.persistence.history.execution_log import LINE_CHARACTERS, MOST_LINES
from tests.present import present
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write, write_one_of_everything
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio


async def test_the_log_is_in_order_of_time(room: Room) -> None:
    """SPEC section 10: items in order of time with `at`, `kind`, `requestCounts`, `step`, `text`; paged."""
    await write_one_of_everything(room)
    whole = present(await room.reads.log("default", "u1-1"))
    kinds = [item["kind"] for item in whole.items]
    assert kinds == [
        "created",
        "attempt",
        "step",
        "step",
        "check",
        "feedback",
        "recovered",
        "attempt",
        "ended",
        "notification",
        "notification",
    ]
    assert whole.items[6] == {
        "at": rfc3339(START + 1_500),
        "kind": "recovered",
        "requestCounts": 7,
        "step": 1,
        "text": "went on after a crash",
    }
    first = present(await room.reads.log("default", "u1-1", limit=8))
    rest = present(await room.reads.log("default", "u1-1", limit=8, cursor=first.next_cursor))
    assert first.items + rest.items == whole.items
    assert rest.next_cursor is None


async def test_the_log_says_what_triggered_an_execution(file_room: Room) -> None:
    """In words, not by the word of the wire (SPEC section 10)."""
    await write(file_room, batch(1, *(execution(n, triggered_by=by) for n, by in enumerate(TriggeredBy, 1))))
    logs = [await file_room.reads.log("default", f"u1-{n}") for n, _ in enumerate(TriggeredBy, 1)]
    said = {by.value: log.items[0]["text"] for by, log in zip(TriggeredBy, logs, strict=True) if log}
    assert said == {
        "timer": "triggered by the timer",
        "manual": "triggered manually",
        "replay": "triggered by a replay",
        "trial": "triggered as a trial",
        "backfill": "triggered by a backfill",
    }


async def test_lines_are_cut(file_room: Room) -> None:
    """A report is whole in the execution; the log has its beginning."""
    await write(file_room, batch(1, execution(), FeedbackSeen(1, 1, START, b"x" * 4_000)))
    log = present(await file_room.reads.log("default", "u1-1"))
    assert log.items[0]["text"] == "x" * (LINE_CHARACTERS - 1) + "…"


async def test_pages_neither_skip_nor_repeat_lines_of_one_moment(room: Room) -> None:
    """While others arrive: a cursor names the last line that was shown."""
    notes = [Noted(1, START + 1_005, "note", str(number)) for number in range(9)]
    told = [
        DeliveryRecord(
            f"d{number}",
            *(1, 1, "e", "http://n", "delivered"),
            created_at=START,
            tries=(DeliveryTry(START + 1_005, 200), DeliveryTry(START + 1_005, 200)),
        )
        for number in range(3)
    ]
    await write(room, batch(1, execution(), *notes[:5]), batch(2, *notes[5:]), batch(0, *told))
    whole = await room.reads.log("default", "u1-1")
    seen: list[object] = []
    cursor = None
    for late in range(20):
        page = present(await room.reads.log("default", "u1-1", limit=2, cursor=cursor))
        seen += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
        await write(room, batch(10 + late, Noted(1, START, "note", "of an earlier moment")))
    assert whole is not None
    assert seen == whole.items
    assert len(seen) == 16


async def test_of_a_long_log_the_newest_lines_are_kept(file_room: Room) -> None:
    """A line says that earlier ones are left out; all that is kept can be paged."""
    count = MOST_LINES + 50
    records = [Noted(1, START + 2_000 + number, "note", str(number)) for number in range(count)]
    for first in range(0, count, 5_000):
        await write(file_room, batch(first + 2, *records[first : first + 5_000]))
    await write(file_room, batch(1, execution()))
    log = present(await file_room.reads.log("default", "u1-1", limit=MOST_LINES + 10))
    assert [item["kind"] for item in log.items[:3]] == ["created", "left_out", "note"]
    assert [item["text"] for item in log.items[2:]] == [str(number) for number in range(50, count)]


async def test_tries_of_older_notifications_are_left_out_of_a_log(file_room: Room) -> None:
    """A line says so, too."""
    told = [
        DeliveryRecord(
            f"d{number}",
            *(1, 1, "e", "http://n", "delivered"),
            created_at=START + number,
            tries=(DeliveryTry(START + 2_000 + number, 200),),
        )
        for number in range(MOST_NOTIFICATIONS + 1)
    ]
    await write(file_room, batch(1, execution()), batch(0, *told))
    log = present(await file_room.reads.log("default", "u1-1", limit=MOST_NOTIFICATIONS + 10))
    assert [item["kind"] for item in log.items[:3]] == ["created", "left_out", "notification"]
    assert len(log.items) == MOST_NOTIFICATIONS + 2
