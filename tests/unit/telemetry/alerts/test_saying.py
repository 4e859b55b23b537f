"""What is said, under which key, over a crash between sending and noting, and how much of it in a minute."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.persistence.history.alerts import SqlAlertTable
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.ports.alerts import Noted
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.telemetry.alerts.rules import AlertRule
from scheduler_service.telemetry.alerts.saying import Budget, Saying
from tests.manual_clock import ManualClock

RULE = AlertRule(name="ops", kinds=frozenset({OccurrenceKind.FINAL_FAILED}), interval=0)


@pytest.fixture
async def table() -> AsyncIterator[SqlAlertTable]:
    database = HistoryDatabase(url="sqlite://")
    opened = SqlAlertTable(database=database, tenant="default")
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
    await table.note([Noted(alert="ops", subject=job, occurrence=one) for job in jobs], {})


async def test_a_message_that_is_repeated_after_a_crash_has_its_key(table: SqlAlertTable) -> None:
    """It was handed over, and the process ended before that was noted: the job knows the key."""
    clock, mailbox = ManualClock(wall=100), Mailbox()
    await note(table, "nightly")
    mailbox.ends = StoreUnavailable("the process ends here")
    with pytest.raises(StoreUnavailable):
        await Saying(table=table, clock=clock, send=mailbox.send).say(RULE)
    mailbox.ends = None
    await Saying(table=table, clock=clock, send=mailbox.send).say(RULE)
    first, again = mailbox.keys
    assert first == again
    await Saying(table=table, clock=clock, send=mailbox.send).say(RULE)
    assert len(mailbox.keys) == 2


async def test_what_happens_again_has_a_key_of_its_own(table: SqlAlertTable) -> None:
    """Else the second message would be taken for the first one."""
    clock, mailbox = ManualClock(wall=100), Mailbox()
    saying = Saying(table=table, clock=clock, send=mailbox.send)
    for at in (10, 20):
        await note(table, "nightly", at=at)
        await saying.say(RULE)
    assert len(set(mailbox.keys)) == 2


async def test_a_thousand_are_ten_messages(table: SqlAlertTable) -> None:
    """Nine of one job each, one of all others; the next minute has room for ten again."""
    clock, mailbox = ManualClock(wall=100), Mailbox()
    saying = Saying(table=table, clock=clock, send=mailbox.send)
    await note(table, *(f"job-{number:04}" for number in range(1_000)))
    await saying.say(RULE)
    assert len(mailbox.texts) == 10
    assert mailbox.texts[-1].startswith("[ops] 991 executions failed: job-0009, ")
    assert mailbox.texts[-1].endswith(" and 981 more.")
    await note(table, "later", at=50)
    await saying.say(RULE)
    assert len(mailbox.texts) == 10
    clock.advance(6_000)
    await saying.say(RULE)
    assert len(mailbox.texts) == 11


def test_a_budget_is_given_back_evenly() -> None:
    """So many at once, and as many in each minute."""
    budget = Budget(most=10)
    for _ in range(10):
        budget.spend(0)
    assert [budget.left(at) for at in (0, 5_999, 6_001, 60_001)] == [0, 0, 1, 10]
