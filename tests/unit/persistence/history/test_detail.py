"""One execution in full: attempts, steps, checks and feedback (SPEC section 10)."""

from typing import Any

import pytest

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import StepEnded
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write, write_one_of_everything
from tests.unit.persistence.history.samples import START, attempt, batch, exchange, execution

pytestmark = pytest.mark.anyio


async def test_one_execution_has_every_member(room: Room) -> None:
    """SPEC section 10: attempts with steps, checks and feedback, notifications with attempts."""
    await write_one_of_everything(room)
    found: Any = await room.reads.execution("default", "u1-1")
    assert found["state"] == "terminated"
    (one,) = found["attempts"]
    assert {name: one[name] for name in ("requestCounts", "startedAt", "endedAt", "error", "retryInMs")} == {
        "requestCounts": 7,
        "startedAt": rfc3339(START + 1_010),
        "endedAt": rfc3339(START + 1_600),
        "error": "500",
        "retryInMs": 2_000,
    }
    first, second = one["steps"]
    assert first == {
        "index": 0,
        "part": None,
        "instance": None,
        "respEnvName": "first",
        "method": "POST",
        "url": "http://127.0.0.1/work",
        "status": 200,
        "fault": None,
        "error": None,
        "sentAt": rfc3339(START + 20),
        "endedAt": rfc3339(START + 1_100),
        "durationMs": 7,
        "request": {"headers": {"X-One": "1", "X-Two": "a, b"}, "body": '{"n":1}', "truncated": False},
        "response": {
            "headers": {"Content-Type": "application/json"},
            "body": '{"ok":true}',
            "truncated": False,
        },
    }
    assert (second["status"], second["fault"], second["error"], second["response"]) == (
        None,
        "refused",
        "500",
        None,
    )
    (check,) = one["checks"]
    assert (check["serial"], check["status"], check["progress"], check["httpStatus"]) == (1, "", "1/2", 200)
    assert check["progressFraction"] == 0.5
    assert one["feedback"] == [
        {
            "at": rfc3339(START + 1_400),
            "stale": True,
            "part": None,
            "truncated": False,
            "progress": "30%",
            "progressFraction": 0.3,
            "body": {"status": "failed", "progress": "30%"},
        }
    ]
    (notification,) = found["notifications"]
    assert {name: notification[name] for name in ("name", "event", "url", "state")} == {
        "name": "ops",
        "event": "finalFailed",
        "url": "http://127.0.0.1/n",
        "state": "failed",
    }
    assert notification["attempts"] == [
        {"at": rfc3339(START + 1_800), "status": None, "fault": "timeout", "durationMs": 50},
        {"at": rfc3339(START + 9_000), "status": 500, "fault": None, "durationMs": 0},
    ]


async def test_a_body_that_is_no_text_is_shown_as_hex(room: Room) -> None:
    """Bytes that are no UTF-8 keep their values."""
    step = StepEnded(1, 1, 0, START, exchange(response_body=b"\xff\x00"))
    await write(room, batch(1, execution(), step))
    found: Any = await room.reads.execution("default", "u1-1")
    response = found["attempts"][0]["steps"][0]["response"]
    assert (response["body"], response["encoding"]) == ("ff00", "hex")


async def test_parts_are_listed_by_their_index(room: Room) -> None:
    """Whoever ended first; the step as a whole follows them, then the next step (SPEC sections 10, 13)."""
    ended = [(0, 2), (0, 0), (0, 1), (0, None), (1, 1), (1, 0), (1, None)]
    steps = [StepEnded(1, 1, index, START, exchange(), part=part) for index, part in ended]
    await write(room, batch(1, execution(), *steps))
    found: Any = await room.reads.execution("default", "u1-1")
    listed = [(step["index"], step["part"]) for step in found["attempts"][0]["steps"]]
    assert listed == [(0, 0), (0, 1), (0, 2), (0, None), (1, 0), (1, 1), (1, None)]


async def test_a_failed_part_shows_what_it_gave(room: Room) -> None:
    """No status, but a response: the data of its completion (SPEC sections 10, 13)."""
    failed = exchange(status=None, fault="full", response_body=b'{"left":0}')
    await write(room, batch(1, execution(), StepEnded(1, 1, 0, START, failed, error="disk")))
    found: Any = await room.reads.execution("default", "u1-1")
    (step,) = found["attempts"][0]["steps"]
    assert (step["status"], step["fault"], step["response"]["body"]) == (None, "full", '{"left":0}')


async def test_the_exchanges_of_the_last_attempt(room: Room) -> None:
    """A replay from a step takes earlier responses from the replayed execution's last attempt."""
    await write(room, batch(1, execution(), *attempt(1, 1, error="500"), *attempt(1, 2)))
    found = await room.reads.exchanges("default", "u1-1")
    assert found is not None
    assert {index: one.status for index, one in found.items()} == {0: 200}


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([{0: 200, 1: 500}, {0: 201}], {0: 201}),
        ([{0: 200, 1: 500}, {1: 201, 2: 500}, {2: 202}], {0: 200, 1: 201, 2: 202}),
        ([{0: 200, 1: 201, 2: 500}, {0: 202, 1: 500}, {1: 203}], {0: 202, 1: 203}),
        ([], {}),
    ],
)
async def test_the_last_attempt_has_what_it_kept_of_earlier_ones(
    room: Room, attempts: list[dict[int, int]], expected: dict[int, int]
) -> None:
    """With `retryFrom: step` it begins later; a step that it did not reach is not its own
    (SPEC sections 6, 10)."""
    steps = [
        StepEnded(1, counts, index, START + counts, exchange(status=status))
        for counts, sent in enumerate(attempts, 1)
        for index, status in sent.items()
    ]
    await write(room, batch(1, execution(), *steps))
    found = await room.reads.exchanges("default", "u1-1")
    assert found is not None
    assert {index: one.status for index, one in found.items()} == expected
