"""The audit in SQL: what is put is listed, newest first, for its tenant alone (SPEC section 14)."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.audit_acts import (
    Act,
    ActKind,
    ActOutcome,
    AuditEntry,
    OwnAct,
    Via,
    act_of_system,
)
from scheduler_service.domain.moments import DAY
from scheduler_service.domain.records import Audited
from scheduler_service.persistence.common.pagination import CursorError
from scheduler_service.persistence.history.retention import Retention
from scheduler_service.persistence.tables.audit_lines import SqlAudit
from scheduler_service.ports.audit import AuditQuery
from scheduler_service.ports.history import Batch
from tests.unit.persistence.history.conftest import Room

pytestmark = pytest.mark.anyio
ACT = Act("updateJob", "Anna", key_id="k1", address="192.0.2.1", detail=b'{"given":{"force":true}}')


@pytest.fixture
async def room(url: str) -> AsyncIterator[Room]:
    room = Room(url)
    yield room
    await room.close()


@pytest.fixture
async def audit(room: Room) -> AsyncIterator[SqlAudit]:
    audit = SqlAudit(database=room.database)
    yield audit
    await audit.close()


def entry(number: int, **members: Any) -> AuditEntry:
    """A request at the moment `number`."""
    return msgspec.structs.replace(
        AuditEntry(
            entry_id=f"{number:04}",
            tenant="default",
            at=number,
            act=ACT,
            kind=ActKind.QUEUE,
            subject="letters",
            outcome=ActOutcome.DONE,
            status=200,
        ),
        **members,
    )


def turn(number: int, act: Act = ACT, **members: Any) -> Batch:
    """A turn at the moment `number` that somebody asked for."""
    records = (Audited(act, **{"status": 200, "revision": 3, **members}),)
    return Batch("life", "nightly", "default", number, number, records)


async def ids(audit: SqlAudit, **asked: Any) -> list[object]:
    """The ids of the lines that fit."""
    found, _ = await audit.page(AuditQuery(**{"tenant": "default", **asked}))
    return [line["id"] for line in found]


async def test_a_line_has_every_member(audit: SqlAudit) -> None:
    """As the API shows it."""
    await audit.put(entry(1, items=("a", "b")))
    ((line,), following) = await audit.page(AuditQuery(tenant="default"))
    assert following is None
    assert line == {
        "id": "0001",
        "at": "1970-01-01T00:00:00.001Z",
        "who": "Anna",
        "keyId": "k1",
        "via": "api",
        "address": "192.0.2.1",
        "operation": "updateJob",
        "kind": "queue",
        "subject": "letters",
        "jobId": None,
        "executionId": None,
        "service": None,
        "fromRevision": None,
        "revision": None,
        "outcome": "done",
        "status": 200,
        "given": {"force": True},
        "difference": [],
        "items": ["a", "b"],
        "truncated": False,
    }


async def test_what_was_asked_for_is_completed_or_dropped(audit: SqlAudit) -> None:
    """The moment and the name stay as they were asked for; what it made has its id only then."""
    await audit.put(entry(1, outcome=ActOutcome.ASKED, status=None))
    await audit.put(entry(2, outcome=ActOutcome.ASKED, status=None))
    await audit.put(entry(1, outcome=ActOutcome.REFUSED, status=409, subject="other", at=9))
    await audit.drop("0002")
    ((line,), _) = await audit.page(AuditQuery(tenant="default"))
    assert (line["outcome"], line["status"], line["subject"]) == ("refused", 409, "other")
    assert line["at"] == "1970-01-01T00:00:00.001Z"


async def test_the_line_of_a_turn_comes_with_its_records_once(room: Room, audit: SqlAudit) -> None:
    """A repetition does nothing: after a crash the store hands out again what the history may have."""
    for _ in range(2):
        room.writer.append(turn(5, execute_number=7), durable=True)
        await room.writer.flush()
    room.writer.append(
        turn(6, act_of_system(OwnAct.CHECK_TIMERS, service="billing", action="pause")), durable=True
    )
    await room.writer.flush()
    system, person = (await audit.page(AuditQuery(tenant="default")))[0]
    assert (person["kind"], person["subject"], person["executionId"]) == ("execution", "life-7", "life-7")
    assert (person["jobId"], person["revision"], person["outcome"]) == ("nightly", 3, "done")
    assert (system["who"], system["via"], system["service"]) == ("system", "system", "billing")
    assert system["given"] == {"action": "pause"}
    assert await audit.of_execution("default", "life", 7) == [
        {
            "operation": "updateJob",
            "who": "Anna",
            "keyId": "k1",
            "via": "api",
            "at": "1970-01-01T00:00:00.005Z",
        }
    ]
    assert await audit.of_execution("acme", "life", 7) == []


async def test_each_execution_of_a_backfill_says_who_asked_for_it(room: Room, audit: SqlAudit) -> None:
    """One line has the first of them, and how many there are."""
    act = Act("backfillJob", "Anna", detail=b'{"given": {"executions": 3}}')
    room.writer.append(turn(5, act, execute_number=7), durable=True)
    await room.writer.flush()
    found = [await audit.of_execution("default", "life", number) for number in (6, 7, 9, 10)]
    assert [[one["who"] for one in lines] for lines in found] == [[], ["Anna"], ["Anna"], []]


async def test_each_filter_narrows_the_list(room: Room, audit: SqlAudit) -> None:
    """Bounds of time are included; a job is also found in the line of an array."""
    room.writer.append(turn(1), durable=True)
    await room.writer.flush()
    given = msgspec.structs.replace(ACT, detail=b'{"given":{"onExisting":["update"]}}')
    await audit.put(entry(2, act=given, kind=ActKind.JOBS, subject="", items=("nightly", "daily")))
    await audit.put(entry(3, kind=ActKind.SERVICE, subject="billing"))
    await audit.put(entry(4, act=Act("pauseQueue", "Bert", Via.COMMAND, key_id="k2")))
    await audit.put(entry(5, tenant="acme"))
    assert await ids(audit) == ["0004", "0003", "0002", "life.1"]
    assert await ids(audit, since=2, until=3) == ["0003", "0002"]
    assert await ids(audit, who="Bert") == ["0004"]
    assert await ids(audit, key_id="k2") == ["0004"]
    assert await ids(audit, operation="pauseQueue") == ["0004"]
    assert await ids(audit, job_id="nightly") == ["0002", "life.1"]
    assert await ids(audit, job_id="night") == []
    for word in ("items", "given", "onExisting", "update", "[]"):
        assert await ids(audit, job_id=word) == [], "a word of the line is no job"
    assert await ids(audit, job_id="nightly", limit=1) == ["0002"]
    assert await ids(audit, service="billing") == ["0003"]
    assert await ids(audit, tenant="acme") == ["0005"]


async def test_pages_neither_repeat_nor_miss(audit: SqlAudit) -> None:
    """Also of lines of one moment; a cursor is of its own list."""
    for number in range(5):
        await audit.put(entry(number, at=number // 3))
    asked = AuditQuery(tenant="default", limit=2)
    found, cursor = [], None
    while True:
        page, cursor = await audit.page(msgspec.structs.replace(asked, cursor=cursor))
        found += [line["id"] for line in page]
        if cursor is None:
            break
        last = cursor
    assert found == ["0004", "0003", "0002", "0001", "0000"]
    with pytest.raises(CursorError):
        await audit.page(AuditQuery(tenant="default", who="Anna", cursor=last))


async def test_lines_go_when_they_are_old(room: Room, audit: SqlAudit) -> None:
    """By `audit.retain_days`, whatever becomes of the executions."""
    await audit.put(entry(1))
    await audit.put(entry(2, at=2 * DAY))
    await Retention(writer=room.writer, audit_age=DAY).run(2 * DAY + 5)
    assert await ids(audit) == ["0002"]
