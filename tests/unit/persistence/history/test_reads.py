"""The reads: every member of every shape, filters, cursors and tenants (SPEC section 10)."""

from typing import Any

import pytest

from scheduler_service.domain.execution import ExecutionState, FailureType, FiringOutcome, TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    DeliveryRecord,
    DeliveryTry,
    FeedbackSeen,
    FiringRecord,
    Noted,
    StepEnded,
)
from scheduler_service.persistence.common.cursor import CursorError, write_cursor
from scheduler_service.persistence.history.queries import DeliveryQuery, ExecutionQuery, FiringQuery
from scheduler_service.persistence.history.reads import HistoryReads
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.samples import START, attempt, batch, exchange, execution

pytestmark = pytest.mark.anyio


async def write(room: Room, *batches: Any) -> None:
    for one in batches:
        room.writer.append(one, durable=False)
    await room.writer.flush()


async def numbers(room: Room, **filters: Any) -> list[object]:
    page = await room.reads.executions(ExecutionQuery(tenant="default", **filters))
    return [item["executeNumber"] for item in page.items]


async def test_an_execution_in_a_list_has_every_member(room: Room) -> None:
    """SPEC section 10: the members of an execution."""
    record = execution(
        state="terminated",
        started_at=START + 1_250,
        ended_at=START + 2_000,
        reason="failed",
        error="503",
        failure_type=FailureType.HTTP,
        attempt_count=3,
        progress="20/60",
    )
    await write(room, batch(1, record))
    (item,) = (await room.reads.executions(ExecutionQuery(tenant="default"))).items
    assert item == {
        "executionId": "u1-1",
        "jobId": "job",
        "executeNumber": 1,
        "revision": 1,
        "state": "terminated",
        "reason": "failed",
        "error": "503",
        "failureType": "http",
        "triggeredBy": "timer",
        "plannedAt": rfc3339(START + 1_000),
        "startedAt": rfc3339(START + 1_250),
        "endedAt": rfc3339(START + 2_000),
        "latenessMs": 250,
        "attemptCount": 3,
        "progress": "20/60",
        "progressFraction": 0.3333,
    }


async def test_an_execution_that_started_early_is_not_late(room: Room) -> None:
    """With `leadSeconds` work may start before its moment; one that has not started has no lateness."""
    await write(room, batch(1, execution(1, started_at=START), execution(2)))
    page = await room.reads.executions(ExecutionQuery(tenant="default"))
    assert [item["latenessMs"] for item in page.items] == [None, 0]


async def test_each_filter_narrows_the_list(room: Room) -> None:
    """SPEC section 10: filters of executions; `from` and `to` are both included."""
    await write(
        room,
        batch(1, execution(1, "succeeded"), execution(2, "terminated", error="500")),
        batch(2, execution(3, "processing", triggered_by=TriggeredBy.MANUAL), uid="u2", job_id="other"),
        batch(2, execution(4, "processing"), uid="u3", tenant="elsewhere"),
    )
    assert await numbers(room) == [3, 2, 1]
    assert await numbers(room, job_id="other") == [3]
    assert await numbers(room, job_ids=frozenset({"job", "none"})) == [2, 1]
    assert await numbers(room, job_ids=frozenset()) == []
    assert await numbers(room, state=ExecutionState.SUCCEEDED) == [1]
    assert await numbers(room, state=ExecutionState.TERMINATED) == [2]
    assert await numbers(room, error="500") == [2]
    assert await numbers(room, triggered_by=TriggeredBy.MANUAL) == [3]
    assert await numbers(room, planned_from=START + 2_000, planned_to=START + 3_000) == [3, 2]
    assert await numbers(room, planned_from=START + 2_001, planned_to=START + 2_999) == []


async def test_pages_are_stable_while_executions_arrive(room: Room) -> None:
    """A cursor neither repeats nor skips what was there when the first page was read."""
    await write(room, *(batch(n, execution(n, created_at=START)) for n in range(1, 8)))
    seen: list[object] = []
    cursor = None
    for newcomer in range(100, 105):
        page = await room.reads.executions(ExecutionQuery(tenant="default", limit=2, cursor=cursor))
        seen += [item["executeNumber"] for item in page.items]
        await write(room, batch(newcomer, execution(newcomer)))
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [7, 6, 5, 4, 3, 2, 1]


async def test_executions_of_one_moment_in_many_jobs_are_all_paged(room: Room) -> None:
    """Ties of moment and number are broken by uid."""
    await write(room, *(batch(1, execution(1), uid=f"u{n}") for n in range(5)))
    first = await room.reads.executions(ExecutionQuery(tenant="default", limit=3))
    rest = await room.reads.executions(ExecutionQuery(tenant="default", limit=3, cursor=first.next_cursor))
    ids = [item["executionId"] for item in first.items + rest.items]
    assert ids == [f"u{n}-1" for n in (4, 3, 2, 1, 0)]
    assert rest.wire()["nextCursor"] is None


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "!!!", "é"),
        *map(write_cursor, (None, -1, (1, 2), (1, 2, 3), (1, 2, "", 4), (2**64 - 1, 1, ""), 2**64 - 1)),
    ],
)
async def test_a_bad_cursor_is_refused(room: Room, cursor: str) -> None:
    """SPEC section 10: a bad cursor is 422, never an error of ours."""
    for ask in (
        room.reads.executions(ExecutionQuery(tenant="default", cursor=cursor)),
        room.reads.firings(FiringQuery(uid="u1", cursor=cursor)),
        room.reads.deliveries(DeliveryQuery(tenant="default", cursor=cursor)),
        room.reads.log("default", "u1-1", cursor=cursor),
    ):
        with pytest.raises(CursorError, match="not a cursor of this list"):
            await ask


@pytest.mark.parametrize("text", ["", "u1", "u1-", "-1", "u1-x", "u1-2", "u2-1", "u1-¹", "u1-" + "9" * 30])
async def test_an_unknown_execution_is_none(room: Room, text: str) -> None:
    """404, whatever the id looks like; another tenant's is unknown too."""
    await write(room, batch(1, execution(1)))
    assert await room.reads.execution("default", text) is None
    assert await room.reads.log("default", text) is None
    assert await room.reads.exchanges("default", text) is None
    assert await room.reads.execution("elsewhere", "u1-1") is None


async def write_one_of_everything(room: Room) -> None:
    check = CheckEnded(1, 7, 1, START + 1_300, exchange(method="GET"), status="", progress="1/2")
    refused = exchange(status=None, fault="refused", response_headers=(), response_body=None)
    await write(
        room,
        batch(1, execution(attempt_count=1), AttemptStarted(1, 7, START + 1_010)),
        batch(2, StepEnded(1, 7, 0, START + 1_100, exchange(), resp_env_name="first")),
        batch(3, StepEnded(1, 7, 1, START + 1_200, refused, error="500")),
        batch(
            4, check, FeedbackSeen(1, 7, START + 1_400, b'{"status":"failed","progress":"30%"}', stale=True)
        ),
        batch(5, Noted(1, START + 1_500, "recovered", "went on after a crash", 7, 1)),
        batch(
            6,
            AttemptEnded(1, 7, START + 1_600, "500", FailureType.CONNECT, "refused", 2_000),
            execution(state="terminated", ended_at=START + 1_700, error="500", reason="failed"),
        ),
        batch(
            0,
            DeliveryRecord(
                "d1",
                1,
                7,
                "finalFailed",
                "http://127.0.0.1/n",
                "failed",
                name="ops",
                created_at=START + 1_700,
                tries=(
                    DeliveryTry(START + 1_800, fault="timeout", duration=50),
                    DeliveryTry(START + 9_000, 500),
                ),
            ),
        ),
    )


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


async def test_parameters_are_shown_and_recalled_where_they_are_whole(room: Room) -> None:
    """SPEC section 10: a replay has the parameters that were sent; what was masked or cut is only shown."""
    await write(
        room,
        batch(1, execution(1)),
        batch(2, execution(2, params=b'{"n": 1.50}')),
        batch(3, execution(3, params=b'{"text":"cu', params_complete=False)),
        batch(4, execution(4, params=None, params_complete=False)),
    )
    found: list[Any] = [await room.reads.execution("default", f"u1-{number}") for number in (1, 2, 3, 4)]
    assert [(one["params"], one["paramsComplete"]) for one in found] == [
        ({}, True),
        ({"n": 1.5}, True),
        ('{"text":"cu', False),
        (None, False),
    ]
    recalled = [await room.reads.params("default", f"u1-{number}") for number in (1, 2, 3, 4, 5)]
    assert recalled == [b"{}", b'{"n": 1.50}', None, None, None]
    assert await room.reads.params("elsewhere", "u1-2") is None


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


async def test_the_ledger_lists_firings(room: Room) -> None:
    """SPEC section 10: the members of a firing, latest first, paged."""
    await write(
        room,
        batch(1, FiringRecord(START, FiringOutcome.FIRED, execute_number=1)),
        batch(2, FiringRecord(START + 100, FiringOutcome.SKIPPED, START + 300, None, "misfire")),
        batch(3, FiringRecord(START + 400, FiringOutcome.LATE, execute_number=2)),
        batch(3, FiringRecord(START, FiringOutcome.FIRED), uid="u2"),
    )
    first = await room.reads.firings(FiringQuery(uid="u1", limit=2))
    rest = await room.reads.firings(FiringQuery(uid="u1", limit=2, cursor=first.next_cursor))
    assert first.items[1] == {
        "plannedAt": rfc3339(START + 100),
        "until": rfc3339(START + 300),
        "count": None,
        "outcome": "skipped",
        "reason": "misfire",
        "executionId": None,
    }
    assert rest.items == [
        {
            "plannedAt": rfc3339(START),
            "until": None,
            "count": 1,
            "outcome": "fired",
            "reason": None,
            "executionId": "u1-1",
        }
    ]
    later = await room.reads.firings(FiringQuery(uid="u1", planned_from=START + 400, planned_to=START + 400))
    assert [item["outcome"] for item in later.items] == ["late"]


async def test_deliveries_are_filtered_and_paged(room: Room) -> None:
    """SPEC section 10: notifications and the outbox, newest first."""

    def delivery(number: int, state: str) -> DeliveryRecord:
        return DeliveryRecord(
            f"d{number}", 1, 1, "succeed", "http://127.0.0.1/n", state, created_at=START + number
        )

    await write(
        room,
        batch(0, delivery(1, "delivered"), delivery(2, "outbox"), delivery(3, "delivered")),
        batch(0, delivery(4, "outbox"), uid="u2", job_id="other"),
    )

    async def ids(**filters: Any) -> list[object]:
        page = await room.reads.deliveries(DeliveryQuery(tenant="default", **filters))
        return [item["deliveryId"] for item in page.items]

    first = await room.reads.deliveries(DeliveryQuery(tenant="default", limit=3))
    assert [item["deliveryId"] for item in first.items] == ["d4", "d3", "d2"]
    assert await ids(cursor=first.next_cursor) == ["d1"]
    assert await ids(state="outbox") == ["d4", "d2"]
    assert await ids(job_id="job", state="outbox") == ["d2"]
    assert await ids(job_ids=frozenset({"other"})) == ["d4"]
    assert await ids(event="finalFailed") == []


async def test_the_newest_execution_of_each_child(room: Room) -> None:
    """Children answer their newest execution in full."""
    await write(
        room,
        *(batch(n, execution(n, "succeeded"), *attempt(n, n)) for n in (1, 2, 3)),
        batch(1, execution(9), uid="u2", job_id="other"),
    )
    children: Any = await room.reads.children_latest("default", ["job", "none", "other"])
    assert [child["executionId"] for child in children] == ["u1-3", "u2-9"]
    assert len(children[0]["attempts"][0]["steps"]) == 1


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


async def test_free_text_comes_back_unchanged(room: Room, conformance: Any) -> None:
    """Strings of every kind are stored and returned as they are, in columns and in entries; a column of
    PostgreSQL holds no NUL."""
    nul = "\ufffd" if room.database.dialect.engine.dialect.name == "postgresql" else "\0"
    strings = [row["string"] for row in conformance("naughty_strings.jsonl")] + ["a\x00b"]
    batches = [
        batch(n, execution(n, error=text, reason=text), Noted(n, START, "note", text))
        for n, text in enumerate(strings, start=1)
    ]
    await write(room, *batches)
    for number, text in enumerate(strings, start=1):
        found = await room.reads.execution("default", f"u1-{number}")
        log = await room.reads.log("default", f"u1-{number}")
        assert found is not None
        assert log is not None
        column = text.replace("\0", nul)
        assert (found["error"], found["reason"], log.items[0]["text"]) == (column, column, text)
