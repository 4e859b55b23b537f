"""What is said, under which key, over a crash between sending and noting, and how much of it in a minute."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.persistence.history.alerts import SqlAlertTable
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.ports.alerts import AlertLine, AlertOccasion, AlertState
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.telemetry.alerts.alert_messages import AlertMessages, MessageBudget, body_of
from scheduler_service.telemetry.alerts.alert_rules import AlertRule
from tests.manual_clock import ManualClock
from tests.rows import each_row

RULE = AlertRule(name="ops", kinds=frozenset({OccurrenceKind.FINAL_FAILED}), interval=0)


@pytest.fixture
async def table() -> AsyncIterator[SqlAlertTable]:
    database = HistoryDatabase(url="sqlite://")
    opened = SqlAlertTable(database=database)
    yield opened
    await opened.close()
    database.close()


class Mailbox:
    """Takes messages; `ends` is raised behind the next one: the process ends there."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.texts: list[str] = []
        self.ends: Exception | None = None

    async def send(self, name: str, key: str, body: bytes) -> bool:
        self.keys.append(key)
        self.texts.append(msgspec.json.decode(body)["text"])
        if self.ends is not None:
            raise self.ends
        return True


async def note(table: SqlAlertTable, *jobs: str, at: int = 10) -> None:
    """Failures of these jobs."""
    one = Occurrence(kind=OccurrenceKind.FINAL_FAILED, at=at)
    await table.note([AlertOccasion(alert="ops", subject=job, occurrence=one) for job in jobs], {})


async def test_a_message_that_is_repeated_after_a_crash_has_its_key(table: SqlAlertTable) -> None:
    """It was handed over, and the process ended before that was noted: the job knows the key."""
    clock, mailbox = ManualClock(wall=100), Mailbox()
    await note(table, "nightly")
    mailbox.ends = StoreUnavailable("the process ends here")
    with pytest.raises(StoreUnavailable):
        await AlertMessages(table=table, clock=clock, send=mailbox.send).say(RULE)
    mailbox.ends = None
    await AlertMessages(table=table, clock=clock, send=mailbox.send).say(RULE)
    first, again = mailbox.keys
    assert first == again
    await AlertMessages(table=table, clock=clock, send=mailbox.send).say(RULE)
    assert len(mailbox.keys) == 2


async def test_what_happens_again_has_a_key_of_its_own(table: SqlAlertTable) -> None:
    """Else the second message would be taken for the first one."""
    clock, mailbox = ManualClock(wall=100), Mailbox()
    saying = AlertMessages(table=table, clock=clock, send=mailbox.send)
    for at in (10, 20):
        await note(table, "nightly", at=at)
        await saying.say(RULE)
    assert len(set(mailbox.keys)) == 2


def test_a_budget_is_given_back_evenly() -> None:
    """So many at once, and as many in each minute."""
    budget = MessageBudget(most=10)
    for _ in range(10):
        budget.spend(0)
    assert [budget.left(at) for at in (0, 5_999, 6_001, 60_001)] == [0, 0, 1, 10]


def line(error: str, kind: FailureType, **members: str) -> AlertLine:
    """A failed execution of the job `nightly`."""
    occurrence = Occurrence(
        kind=OccurrenceKind.FINAL_FAILED,
        at=10,
        job_id="nightly",
        execute_number=3,
        error=error,
        failure_type=kind,
        **members,  # type: ignore[arg-type]
    )
    return AlertLine(
        alert="ops",
        kind=OccurrenceKind.FINAL_FAILED,
        subject="nightly",
        state=AlertState.OPEN,
        since=10,
        at=10,
        count=1,
        total=1,
        said_at=None,
        occurrence=occurrence,
    )


@each_row(
    ("failed", "message", "why"),
    [
        (line("500", FailureType.HTTP, reason="no_policy"), None, "(500)"),
        (line("500", FailureType.CONNECT, reason="no_policy"), None, "(500: connect)"),
        (line("timeout", FailureType.TIMEOUT, reason="no_policy"), None, "(timeout)"),
        (line("disk", FailureType.BUSINESS, message="disk is full"), "disk is full", "(disk: disk is full)"),
        (line("cancelled", FailureType.CANCELLED, reason="not today"), "not today", "(cancelled: not today)"),
    ],
)
def test_why_it_failed(failed: AlertLine, message: str | None, why: str) -> None:
    """A reason is said where a person gave it: of a cancelled execution."""
    body = body_of(failed)
    assert body["message"] == message
    assert body["text"] == f"[ops] The job nightly failed in its execution 3 {why}."


def test_a_long_reason_is_cut() -> None:
    """To 500 characters, the mark of the cut among them."""
    body = body_of(line("cancelled", FailureType.CANCELLED, reason="x" * 501))
    assert body["message"] == "x" * 499 + "…"
    assert "x" * 499 + "…)" in str(body["text"])
