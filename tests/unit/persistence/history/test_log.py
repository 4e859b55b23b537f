"""The log of an execution, in order of time (SPEC section 10)."""

import pytest

from scheduler_service.domain.execution import TriggeredBy
from scheduler_service.domain.moments import rfc3339
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write, write_one_of_everything
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio


async def test_the_log_is_in_order_of_time(room: Room) -> None:
    """SPEC section 10: items in order of time with `at`, `kind`, `requestCounts`, `step`, `text`; paged."""
    await write_one_of_everything(room)
    whole = await room.reads.log("default", "u1-1")
    assert whole is not None
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
    first = await room.reads.log("default", "u1-1", limit=8)
    assert first is not None
    rest = await room.reads.log("default", "u1-1", limit=8, cursor=first.next_cursor)
    assert rest is not None
    assert first.items + rest.items == whole.items
    assert rest.next_cursor is None


@pytest.mark.parametrize(
    ("by", "text"),
    [
        (TriggeredBy.TIMER, "triggered by the timer"),
        (TriggeredBy.MANUAL, "triggered manually"),
        (TriggeredBy.REPLAY, "triggered by a replay"),
    ],
)
async def test_the_log_says_what_triggered_an_execution(room: Room, by: TriggeredBy, text: str) -> None:
    """In words, not by the word of the wire (SPEC section 10)."""
    await write(room, batch(1, execution(triggered_by=by)))
    log = await room.reads.log("default", "u1-1")
    assert log is not None
    assert [item["text"] for item in log.items] == [text]
