"""The reads: every member of every shape, filters, cursors and tenants (SPEC section 10)."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.execution import ExecutionState, FailureType, FiringOutcome, TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import (
    AttemptEnded,
    Audited,
    DeliveryRecord,
    Exchange,
    FeedbackSeen,
    FiringRecord,
    Noted,
    ResultKept,
)
from scheduler_service.domain.tracing import trace_of
from scheduler_service.persistence.common.pagination import CursorError, mark_list, write_cursor
from scheduler_service.persistence.history.history_reads import FoundResult
from scheduler_service.persistence.history.queries import DeliveryQuery, ExecutionQuery, FiringQuery
from scheduler_service.ports.errors import StoreUnavailable
from tests.present import present
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, attempt, batch, execution

pytestmark = pytest.mark.anyio


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
        "message": None,
        "triggeredBy": "timer",
        "triggeredByName": None,
        "plannedAt": rfc3339(START + 1_000),
        "startedAt": rfc3339(START + 1_250),
        "endedAt": rfc3339(START + 2_000),
        "latenessMs": 250,
        "attemptCount": 3,
        "progress": "20/60",
        "progressFraction": 0.3333,
    }


def failed(number: int, message: str, request_counts: int = 1, **changes: Any) -> AttemptEnded:
    given: dict[str, Any] = {"error": "500", "failure_type": FailureType.HTTP, **changes}
    return AttemptEnded(number, request_counts, START, message=message, **given)


async def test_a_failed_execution_in_a_list_has_the_message_of_its_last_attempt(room: Room) -> None:
    """Also one that waits for a retry; not one whose next attempt runs, nor one that succeeded after all.

    Also what the target said: who reads the history sees bodies, unlike who reads events.
    """
    bad: dict[str, Any] = {"error": "500", "failure_type": FailureType.HTTP}
    said: dict[str, Any] = {"error": "disk", "failure_type": FailureType.BUSINESS}
    await write(
        room,
        batch(1, execution(1), *attempt(1, 1)[:1]),
        batch(2, execution(1, "failed", **bad), failed(1, "the first", retry_in=5)),
        batch(3, execution(1, "terminated", **bad), failed(1, "the second" * 40, 2)),
        batch(4, execution(2, "failed", **bad), failed(2, "waits", retry_in=5)),
        batch(5, execution(3, "failed", **bad), failed(3, "over", retry_in=5)),
        batch(6, execution(3), *attempt(3, 2)[:1]),
        batch(7, execution(4, "failed", **bad), failed(4, "over", retry_in=5)),
        batch(8, execution(4, "succeeded"), *attempt(4, 2)),
        batch(9, execution(5, "cancelled", error="cancelled")),
        batch(10, execution(3), FeedbackSeen(1, 2, START, b"{}", stale=True)),
        batch(11, execution(6, "terminated", **said), failed(6, "disk is full", **said)),
    )
    items = (await room.reads.executions(ExecutionQuery(tenant="default"))).items
    found = {item["executeNumber"]: item["message"] for item in items}
    cut = ("the second" * 40)[:199] + "…"
    assert found == {1: cut, 2: "waits", 3: None, 4: None, 5: None, 6: "disk is full"}
    in_full = [await room.reads.execution("default", f"u1-{number}") for number in range(1, 7)]
    assert [one and one["message"] for one in in_full] == list(found.values())[::-1]


async def test_an_execution_says_who_triggered_it(room: Room) -> None:
    """By the line of the turn that made it, of a backfill all of them; who cancels it at once is another one.

    A timer's has nobody, nor has one that the audit does not know.
    """
    anna, berta = Audited(Act("triggerJob", "Anna"), 200, 1), Audited(Act("backfillJob", "Berta"), 200, 3)
    cancelled = Audited(Act("cancelExecution", "Carl"), 200, 1)
    kinds = {1: "manual", 2: "timer", 3: "backfill", 4: "backfill", 5: "replay", 6: "manual"}
    records = {
        number: execution(number, triggered_by=TriggeredBy(kind), created_at=START)
        for number, kind in kinds.items()
    }
    await write(
        room,
        batch(1, records[1], anna, at=START),
        batch(2, records[2], records[3], records[4], berta, at=START),
        batch(10, records[1], cancelled, at=START),
        batch(
            11,
            replace(records[5], created_at=START + 1),
            Audited(Act("replayExecution", ""), 200, 5),
            at=START + 1,
        ),
        batch(12, replace(records[6], created_at=START + 2), at=START + 3),
    )
    items = (await room.reads.executions(ExecutionQuery(tenant="default"))).items
    found = {item["executeNumber"]: item["triggeredByName"] for item in items}
    assert found == {1: "Anna", 2: None, 3: "Berta", 4: "Berta", 5: None, 6: None}
    in_full = [await room.reads.execution("default", f"u1-{number}") for number in found]
    assert [one and one["triggeredByName"] for one in in_full] == list(found.values())


async def test_a_result_is_read_where_it_is_asked_for(room: Room) -> None:
    """Whole, and only there: an execution in full says what it is; its log and attempts are without it."""
    body = b"x" * 100_000
    await write(
        room,
        batch(1, execution(1), *attempt(1, 1)[:1]),
        batch(2, execution(1, "succeeded"), *attempt(1, 1)[1:], ResultKept(1, body, 200, "text/plain")),
        batch(3, execution(2, "succeeded"), *attempt(2, 2)),
        batch(4, execution(3, "terminated", error="500"), failed(3, "no stock", 3)),
    )
    found = await room.reads.result("default", "u1-1")
    assert found == FoundResult(
        ExecutionState.SUCCEEDED, None, None, dropped=False, result=ResultKept(1, body, 200, "text/plain")
    )
    in_full = present(await room.reads.execution("default", "u1-1"))
    brief = {
        "status": 200,
        "contentType": "text/plain",
        "truncated": False,
        "masked": False,
        "bytes": 100_000,
    }
    assert (in_full["result"], len(in_full["attempts"]), in_full["detail"]) == (brief, 1, "kept")
    log = present(await room.reads.log("default", "u1-1"))
    assert body.decode() not in str(log)
    without = await room.reads.result("default", "u1-2")
    assert without == FoundResult(ExecutionState.SUCCEEDED, None, None, dropped=False, result=None)
    bad = await room.reads.result("default", "u1-3")
    assert bad == FoundResult(ExecutionState.TERMINATED, "500", "no stock", dropped=False, result=None)
    assert await room.reads.result("acme", "u1-1") is None
    assert await room.reads.result("default", "u1-9") is None


async def test_messages_of_a_long_list_are_all_found(room: Room) -> None:
    """More than are looked for at once, each in what another flush wrote."""
    numbers = range(1, 231)
    bad: dict[str, Any] = {"error": "500", "failure_type": FailureType.HTTP}
    for group in (numbers[:50], numbers[50:]):
        await write(
            room,
            *(batch(one, execution(one, "terminated", **bad), failed(one, f"no {one}")) for one in group),
        )
    items = (await room.reads.executions(ExecutionQuery(tenant="default", limit=500))).items
    assert {item["executeNumber"]: item["message"] for item in items} == {one: f"no {one}" for one in numbers}


async def test_an_execution_says_its_trace(room: Room) -> None:
    """That of its caller, or its own; none before it has begun, or while nobody knows who called."""
    caller = f"{'ab' * 16}-{'cd' * 8}-01"
    manual: dict[str, Any] = {"triggered_by": TriggeredBy.MANUAL, "started_at": START}
    await write(
        room,
        batch(1, execution(1, started_at=START)),
        batch(2, execution(2)),
        batch(3, execution(3, **manual)),
        batch(4, execution(4, **manual), *attempt(4, 1)),
        batch(5, execution(5, trace=caller, **manual), failed(5, "no", trace=caller)),
    )
    shown = [await room.reads.execution("default", f"u1-{number}") for number in range(1, 6)]
    own = {number: trace_of("u1", number) for number in (1, 4)}
    assert [one and one["traceId"] for one in shown] == [own[1], None, None, own[4], "ab" * 16]


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
    assert await numbers(room, execute_number=2) == [2]
    assert await numbers(room, planned_from=START + 2_000, planned_to=START + 3_000) == [3, 2]
    assert await numbers(room, planned_from=START + 2_001, planned_to=START + 2_999) == []


async def test_a_number_is_found_in_each_life_of_a_job(room: Room) -> None:
    """Whatever the order of their moments, and by keys alone: a life may have a million executions."""
    for number in range(1, 10):
        uid = f"life{number // 3}"
        moment = START + (number if number != 5 else 1)  # the clock was set back for a while
        await write(room, batch(number, execution(number, created_at=moment), uid=uid))
    await write(room, batch(1, execution(1), uid="other", job_id="another"))
    found = [await room.reads.life_of("default", "job", number) for number in range(11)]
    assert found == [None, *(f"life{number // 3}" for number in range(1, 10)), None]
    assert await room.reads.life_of("acme", "job", 1) is None


async def test_executions_of_planned_moments(room: Room) -> None:
    """Those of a timer and of backfills, of one job, with both bounds."""
    by = (TriggeredBy.TIMER, TriggeredBy.MANUAL, TriggeredBy.BACKFILL, TriggeredBy.TIMER)
    for number, trigger in enumerate(by, 1):
        record = execution(number, triggered_by=trigger, planned_at=START + number)
        await write(room, batch(number, record))
    found = await room.reads.planned("default", "job", START + 1, START + 3)
    assert sorted((one.execute_number, one.planned_at - START) for one in found) == [(1, 1), (3, 3)]
    assert await room.reads.planned("acme", "job", START, START + 9) == []


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


BAD_PLACES = (None, -1, (1, 2), (1, 2, 3), (1, 2, "", 4), (2**64 - 1, 1, ""), 2**64 - 1)


async def test_a_bad_cursor_is_refused(file_room: Room) -> None:
    """SPEC section 10: a bad cursor is 422, never an error of ours; no database is asked."""
    reads = file_room.reads
    executions, firings = ExecutionQuery(tenant="default"), FiringQuery(uid="u1")
    deliveries = DeliveryQuery(tenant="default")
    for bad in ("", "x", "!!!", "é", *BAD_PLACES):

        def write(mark: str, bad: Any = bad) -> str:
            return bad if isinstance(bad, str) else write_cursor(mark, bad)

        for ask in (
            reads.executions(replace(executions, cursor=write(executions.mark))),
            reads.firings(replace(firings, cursor=write(firings.mark))),
            reads.deliveries(replace(deliveries, cursor=write(deliveries.mark))),
            reads.log("default", "u1-1", cursor=write(mark_list("log", "default", "u1-1"))),
        ):
            with pytest.raises(CursorError, match="not a cursor of this list"):
                await ask


async def test_a_cursor_of_another_list_is_refused(file_room: Room) -> None:
    """Of another kind of list, another job or execution, other filters; a moving bound of time is none."""
    room = file_room
    await write(room, *(batch(number, execution(number)) for number in range(1, 4)))
    asked = ExecutionQuery(tenant="default", job_id="job", planned_from=0, limit=1)
    cursor = present((await room.reads.executions(asked)).next_cursor)
    for other in ({"job_id": "other"}, {"job_id": None}, {"state": ExecutionState.SUCCEEDED}):
        with pytest.raises(CursorError, match="filters"):
            await room.reads.executions(replace(asked, cursor=cursor, **other))
    for ask in (
        room.reads.executions(replace(asked, cursor=cursor, labels=(("team", "x"),), job_ids=frozenset())),
        room.reads.executions(replace(asked, cursor=cursor, tenant="other")),
        room.reads.firings(FiringQuery(uid="u1", cursor=cursor)),
        room.reads.deliveries(DeliveryQuery(tenant="default", job_id="job", cursor=cursor)),
        room.reads.log("default", "u1-1", cursor=cursor),
    ):
        with pytest.raises(CursorError, match="filters"):
            await ask
    assert len((await room.reads.executions(replace(asked, cursor=cursor, planned_from=1))).items) == 1


async def test_an_unknown_execution_is_none(room: Room) -> None:
    """404, whatever the id looks like; another tenant's is unknown too."""
    await write(room, batch(1, execution(1)))
    for text in ("", "u1", "u1-", "-1", "u1-x", "u1-2", "u2-1", "u1-¹", "u1-" + "9" * 30):
        reads = room.reads.execution, room.reads.log, room.reads.exchanges
        assert [await read("default", text) for read in reads] == [None] * 3, text
    assert await room.reads.execution("elsewhere", "u1-1") is None


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


async def test_the_ledger_lists_firings(room: Room) -> None:
    """SPEC section 10: the members of a firing, latest first, paged."""
    await write(
        room,
        batch(1, FiringRecord(START, FiringOutcome.FIRED, execute_number=1)),
        batch(2, FiringRecord(START + 100, FiringOutcome.SKIPPED, START + 300, None, "misfire")),
        batch(3, FiringRecord(START + 400, FiringOutcome.LATE, execute_number=2), execution(2, "terminated")),
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
        "state": None,
    }
    assert [one["state"] for one in first.items] == ["terminated", None]
    assert rest.items == [
        {
            "plannedAt": rfc3339(START),
            "until": None,
            "count": 1,
            "outcome": "fired",
            "reason": None,
            "executionId": "u1-1",
            "state": None,
        }
    ]
    later = await room.reads.firings(FiringQuery(uid="u1", planned_from=START + 400, planned_to=START + 400))
    assert [item["outcome"] for item in later.items] == ["late"]
    runs = [(START, START, 1), (START + 100, START + 300, None), (START + 400, START + 400, 1)]
    assert await room.reads.planned_runs("u1", START + 300, START + 399, 9) == runs[1:2]
    assert await room.reads.planned_runs("u1", START, START + 400, 2) == runs[:2]


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


async def test_a_page_of_deliveries_ends_early_where_they_are_large(room: Room) -> None:
    """At 4 MiB as they are shown, where a control character is six; the next page goes on behind it."""
    sent = Exchange("POST", "http://127.0.0.1/n", request_body=b"\x01" * 300_000)
    made = [
        DeliveryRecord(f"d{n}", 1, 1, "succeed", sent.url, "delivered", created_at=START + n, exchange=sent)
        for n in range(5)
    ]
    await write(room, batch(0, *made))
    found: list[list[object]] = []
    cursor = None
    while cursor is not None or not found:
        page = await room.reads.deliveries(DeliveryQuery(tenant="default", limit=500, cursor=cursor))
        found.append([item["deliveryId"] for item in page.items])
        cursor = page.next_cursor
    assert found == [["d4", "d3"], ["d2", "d1"], ["d0"]]


async def test_jobs_of_a_tenant_have_their_ids_there(room: Room) -> None:
    """The `jobId` of a tenant's job is that of its definition, not its key (SPEC section 10)."""
    told = DeliveryRecord("d1", 1, 1, "succeed", "http://127.0.0.1/n", "outbox", created_at=START)
    await write(room, batch(1, execution(1, "succeeded"), told, job_id="team|job", tenant="team"))
    executions = await room.reads.executions(ExecutionQuery(tenant="team"))
    deliveries = await room.reads.deliveries(DeliveryQuery(tenant="team"))
    one = await room.reads.execution("team", "u1-1")
    assert [item["jobId"] for item in (*executions.items, *deliveries.items, one or {})] == ["job"] * 3


async def test_free_text_comes_back_unchanged(room: Room, conformance: Any) -> None:
    """Strings of every kind are stored and returned as they are, in columns and in entries; a column of
    PostgreSQL holds no NUL."""
    nul = "\ufffd" if room.database.dialect.engine.dialect.name == "postgresql" else "\0"
    strings = [row["string"] for row in conformance("naughty_strings.jsonl")] + ["a\x00b"]
    rows = [execution(n, error=text, reason=text) for n, text in enumerate(strings, start=1)]
    notes = [Noted(1, START, "note", text) for text in strings]
    await write(room, batch(1, *rows, *notes))
    page = await room.reads.executions(ExecutionQuery(tenant="default", limit=len(strings)))
    columns = [text.replace("\0", nul) for text in strings]
    assert [(one["error"], one["reason"]) for one in page.items[::-1]] == [(one, one) for one in columns]
    log = present(await room.reads.log("default", "u1-1", limit=len(strings) + 1))
    assert [one["text"] for one in log.items if one["kind"] == "note"] == strings


async def test_a_closed_history_is_unavailable(room: Room) -> None:
    """Callers are still answered while a node closes: 503, and no fault of the service."""
    await room.reads.close()
    with pytest.raises(StoreUnavailable):
        await room.reads.executions(ExecutionQuery(tenant="default"))
