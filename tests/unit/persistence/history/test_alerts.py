"""The table of the alerts, and what it reads of the history: in every database that keeps one."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler_service.domain.audit_acts import OwnAct, act_of_system
from scheduler_service.domain.execution import DeliveryState, FailureType
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.records import AttemptEnded, Audited, DeliveryRecord, DeliveryTry
from scheduler_service.persistence.history.alerts import SqlAlertTable
from scheduler_service.ports.alerts import AlertOccasion, AlertState
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.samples import START, batch, execution

pytestmark = pytest.mark.anyio
FAILED, FAILING = OccurrenceKind.FINAL_FAILED, OccurrenceKind.FAILING


@pytest.fixture
async def table(room: Room) -> AsyncIterator[SqlAlertTable]:
    opened = SqlAlertTable(database=room.database)
    yield opened
    await opened.close()


def noted(
    at: int, kind: OccurrenceKind = FAILED, *, job: str = "nightly", alert: str = "ops"
) -> AlertOccasion:
    one = Occurrence(kind=kind, at=at, job_id=job)
    return AlertOccasion(alert=alert, subject=job, occurrence=one, lasts=kind is FAILING)


async def ended(room: Room, number: int, state: str, **changes: Any) -> None:
    """An execution of `job` that ended at START + number."""
    job = changes.pop("job_id", "job")
    tenant = changes.pop("tenant", "default")
    record = execution(number, state, ended_at=START + number, created_at=START + number, **changes)
    room.writer.append(batch(number, record, uid=f"u-{job}", job_id=job, tenant=tenant), durable=False)
    await room.writer.flush()


async def test_what_happened_more_often_is_counted(table: SqlAlertTable) -> None:
    """One line per alert, kind and subject; what is noted once more changes nothing."""
    await table.note([noted(10), noted(20), noted(10), noted(20)], {"ended": 20})
    (line,) = (await table.waiting("ops", 0, 10)).lines
    assert (line.count, line.total, line.since, line.at) == (2, 2, 10, 20)
    assert line.state is AlertState.POINT
    assert await table.marks() == {"ended": 20}


async def test_what_was_said_waits_no_more(table: SqlAlertTable) -> None:
    """Until it happens again, and then for the interval."""
    await table.note([noted(10)], {})
    await table.said((await table.waiting("ops", 0, 10)).lines, 100)
    assert (await table.waiting("ops", 1_000, 10)).total == 0
    await table.note([noted(110), noted(120)], {})
    assert (await table.waiting("ops", 99, 10)).total == 0
    (line,) = (await table.waiting("ops", 100, 10)).lines
    assert (line.count, line.total, line.since) == (2, 3, 110)


async def test_what_happens_while_it_is_said_is_not_lost(table: SqlAlertTable) -> None:
    """A line that changed since it was read still waits, with what is new."""
    await table.note([noted(10)], {})
    lines = (await table.waiting("ops", 0, 10)).lines
    await table.note([noted(11)], {})
    await table.said(lines, 100)
    (line,) = (await table.waiting("ops", 100, 10)).lines
    assert (line.count, line.at) == (1, 11)


async def test_what_lasts_is_open_until_it_recovers(table: SqlAlertTable) -> None:
    """It is noted once; that it has ended is to be said, with its beginning."""
    await table.note([noted(10, FAILING), noted(20, FAILING)], {})
    (line,) = await table.open((FAILING,), 10)
    assert (line.since, line.count) == (10, 1)
    assert await table.count_open() == 1
    await table.said([line], 30)
    await table.recover([line], 40)
    assert await table.open((), 10) == []
    (line,) = (await table.waiting("ops", 30, 10)).lines
    assert (line.state, line.since, line.at) == (AlertState.RECOVERED, 10, 40)
    await table.note([noted(50, FAILING)], {})
    (line,) = await table.open((), 10)
    assert (line.since, line.said_at) == (50, 30)


async def test_what_lasts_of_the_own_tenant_is_found_behind_that_of_others(table: SqlAlertTable) -> None:
    """Also where others have more than are shown: who sees its own alone is shown and told these."""
    lost = Occurrence(kind=OccurrenceKind.STORE_LOST, at=10, subject="history")
    store = AlertOccasion(alert="ops", subject="history", occurrence=lost, lasts=True)
    given = [noted(10, FAILING, job=f"acme|a{number}") for number in range(3)]
    await table.note([*given, noted(10, FAILING, job="z"), store], {})
    found = await table.open((), 3, is_own=True)
    assert [line.subject for line in found] == ["history", "z"]
    assert (await table.count_open(is_own=True), await table.count_open()) == (2, 5)


async def test_pages_of_what_lasts_pass_over_no_line(table: SqlAlertTable) -> None:
    """Several alerts, and kinds, have the same subject."""
    given = [
        noted(10, kind, job=job, alert=alert)
        for job in ("a", "b")
        for alert in ("ops", "team")
        for kind in (FAILING, OccurrenceKind.OVERDUE)
    ]
    await table.note([msgspec.structs.replace(one, lasts=True) for one in given], {})
    found, after = [], None
    while page := await table.open((), 3, after):
        found += page
        after = page[-1]
    assert len({(line.subject, line.alert, line.kind) for line in found}) == len(found) == len(given)


async def test_a_flood_is_said_in_one_statement(table: SqlAlertTable) -> None:
    """Of many lines some are read, all are counted, and all are said; those of later stay."""
    await table.note([noted(10, job=f"job-{number}") for number in range(50)], {})
    waiting = await table.waiting("ops", 0, 11)
    assert (len(waiting.lines), waiting.total) == (11, 50)
    await table.note([noted(200, job="later")], {})
    await table.said_all("ops", 0, 100, waiting)
    (line,) = (await table.waiting("ops", 1_000, 11)).lines
    assert line.subject == "later"


async def test_only_what_is_over_and_said_is_purged(table: SqlAlertTable) -> None:
    """And the lines of alerts that the settings do not have any more."""
    await table.note(
        [
            noted(10),
            noted(10, job="waits"),
            noted(10, FAILING),
            noted(10, alert="gone"),
            noted(90, job="new"),
        ],
        {},
    )
    lines = [line for line in (await table.waiting("ops", 0, 10)).lines if line.subject != "waits"]
    await table.said(lines, 50)
    await table.purge(60, ["ops"])
    await table.note([noted(300), noted(5, alert="gone")], {})
    assert {line.subject for line in (await table.waiting("ops", 50, 10)).lines} == {"nightly", "waits"}
    (line,) = (line for line in (await table.waiting("ops", 50, 10)).lines if line.subject == "nightly")
    assert line.total == 1
    assert await table.count_open() == 1
    assert (await table.waiting("gone", 0, 10)).total == 1


async def test_what_ended_badly_is_read_in_order(room: Room, table: SqlAlertTable) -> None:
    """Failed and cancelled executions, not the others; a page goes on where the last one ended."""
    for number, state in enumerate(("terminated", "succeeded", "cancelled", "skipped", "terminated"), 1):
        await ended(room, number, state, error="500" if state == "terminated" else None)
    found = await table.ended_badly(START, 10, 0)
    assert [(one.execute_number, one.error) for one in found] == [(1, "500"), (3, None), (5, "500")]
    assert [one.execute_number for one in await table.ended_badly(START + 3, 10, 0)] == [3, 5]
    assert [one.execute_number for one in await table.ended_badly(START, 1, 1)] == [3]


async def test_what_ended_badly_says_why(room: Room, table: SqlAlertTable) -> None:
    """The first line of its last attempt's message, the target's own where it gave one, cut."""
    failed: Any = {"error": "x", "failure_type": FailureType.BUSINESS}
    ending = AttemptEnded(1, 2, START, message="no stock\nat line 1", **failed)
    room.writer.append(batch(1, execution(1, "terminated", ended_at=START, **failed), ending), durable=False)
    await room.writer.flush()
    assert [one.message for one in await table.ended_badly(START, 10, 0)] == ["no stock"]


async def test_what_the_service_paused_says_after_what(room: Room, table: SqlAlertTable) -> None:
    """In order, with the failure of the execution that was one too many."""
    await ended(room, 1, "terminated", error="E42", failure_type=FailureType.BUSINESS)
    await ended(room, 2, "terminated", error="410", job_id="other")
    failed, gone = act_of_system(OwnAct.PAUSE_OF_FAILURES, failures="3"), act_of_system(OwnAct.PAUSE_OF_GONE)
    acts = {"job": failed, "other": gone}
    for number, (job, act) in enumerate(acts.items(), 1):
        line = Audited(act, 200, number, 1)
        room.writer.append(batch(10 + number, line, uid=f"u-{job}", job_id=job), durable=False)
    await room.writer.flush()
    found = await table.paused(0, 10, 0)
    assert [(one.job_id, one.reason, one.count, one.error) for one in found] == [
        ("job", "failures", 3, "E42"),
        ("other", "gone", None, "410"),
    ]
    assert await table.paused(0, 10, 1) == found[1:]


async def test_the_newest_runs_of_a_job(room: Room, table: SqlAlertTable) -> None:
    """Newest first; what was skipped, cancelled or is still live says nothing."""
    states = ("succeeded", "terminated", "skipped", "cancelled", "terminated")
    for number, state in enumerate(states, 1):
        await ended(room, number, state)
    runs = await table.runs(["job", "other"], 2)
    assert [run.has_failed for run in runs["job"]] == [True, True]
    assert [run.has_failed for run in (await table.runs(["job"], 5))["job"]] == [True, True, False]
    assert runs["other"] == []
    await ended(room, 6, "terminated", job_id="acme|job", tenant="acme")
    assert [len(found) for found in (await table.runs(["job", "acme|job"], 5)).values()] == [3, 1]


async def test_what_began_late_or_not_yet(room: Room, table: SqlAlertTable) -> None:
    """Of the timer's executions planned in the span; what began in time is not among them."""
    await ended(room, 1, "succeeded", planned_at=START, started_at=START + 5_000)
    await ended(room, 2, "succeeded", planned_at=START, started_at=START + 500)
    waits = execution(3, "enqueued", planned_at=START)
    room.writer.append(batch(3, waits, uid="u-job", job_id="job"), durable=False)
    await room.writer.flush()
    found = await table.late(START, START, 1_000, 10, 0)
    assert sorted((one.execute_number, one.lateness_ms) for one in found) == [(1, 5_000), (3, None)]
    assert await table.late(START + 1, START + 2, 1_000, 10, 0) == []
    for number, tenant in enumerate(("acme", "zed"), 4):
        late = {"planned_at": START + 1, "started_at": START + 5_000}
        await ended(room, number, "succeeded", job_id=f"{tenant}|job", tenant=tenant, **late)
    found = await table.late(START, START + 2, 1_000, 10, 2)
    assert [(one.tenant, one.job_id) for one in found] == [("acme", "acme|job"), ("zed", "zed|job")]


async def test_what_was_given_up(room: Room, table: SqlAlertTable) -> None:
    """Deliveries that failed or lie in the outbox, at the first time, however late and often it is looked."""
    made: dict[str, DeliveryRecord] = {}
    for name, state, tries in (
        ("a", "outbox", 4),
        ("b", "failed", 1),
        ("c", "delivered", 1),
        ("d", "outbox", 9),
    ):
        record = DeliveryRecord(
            delivery_id=name,
            execute_number=1,
            request_counts=1,
            event="finalFailed",
            url="http://x/",
            state=DeliveryState(state),
            tries=tuple(DeliveryTry(START, 500) for _ in range(tries)),
        )
        made[name] = record
        room.writer.append(batch(-ord(name), record, at=START), durable=False)
    await room.writer.flush()
    assert [one.subject for one in await table.given_up(START - 1_000, 10, 0)] == ["a", "b", "d"]
    for state in ("pending", "outbox"):
        for later in (1, 2):
            again = replace(made["a"], state=DeliveryState(state), tries=made["a"].tries * (later + 1))
            room.writer.append(batch(later + 10, again, at=START + 5_000 * later), durable=False)
        await room.writer.flush()
    found = await table.given_up(START - 1_000, 10, 0)
    assert {one.error for one in found} == {"500"}
    assert [(one.subject, one.at) for one in found] == [("a", START), ("b", START), ("d", START)]


class Events:
    """A table, and what it has published."""

    def __init__(self, room: Room) -> None:
        self.found: list[Occurrence] = []
        self.table = SqlAlertTable(database=room.database, publish=self.found.append)

    async def note(self, kind: OccurrenceKind, *, at: int = 10) -> None:
        """Something that lasts."""
        one = Occurrence(kind=kind, at=at, tenant="default", job_id="nightly", uid="u", count=3)
        await self.table.note([AlertOccasion(alert="ops", subject="nightly", occurrence=one, lasts=True)], {})


@pytest.fixture
async def events(file_room: Room) -> AsyncIterator[Events]:
    found = Events(file_room)
    yield found
    await found.table.close()


async def test_a_finding_is_an_event_once(events: Events) -> None:
    """However often it is found while it lasts; its subject is the alert."""
    for at in (10, 20):
        await events.note(FAILING, at=at)
    (one,) = events.found
    assert (one.kind, one.at, one.job_id, one.count, one.subject) == ("failing", 10, "nightly", 3, "ops")


async def test_what_was_an_event_before_is_no_second_one(events: Events) -> None:
    """A failed execution was told when it ended."""
    await events.note(FAILED)
    assert events.found == []


async def test_an_end_is_an_event(events: Events) -> None:
    """With the word of what has ended; found again, it is told again."""
    await events.note(OccurrenceKind.OVERDUE)
    await events.table.recover(await events.table.open((), 10), 50)
    await events.note(OccurrenceKind.OVERDUE, at=60)
    assert [one.kind for one in events.found] == ["overdue", "recovered", "overdue"]
    end = events.found[1]
    assert (end.at, end.tenant, end.job_id) == (50, "default", "nightly")
    assert (end.subject, end.reason) == ("nightly", "overdue")
