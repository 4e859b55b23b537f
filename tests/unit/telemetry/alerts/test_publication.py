"""What alerts find out is shown to readers of events: once, and its end."""

from collections.abc import AsyncIterator

import pytest

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.persistence.history.alerts import SqlAlertTable
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.ports.alerts import Noted
from scheduler_service.telemetry.alerts.publication import PublishedAlerts


class Room:
    """A table, and what it has published."""

    def __init__(self, table: SqlAlertTable) -> None:
        self.events: list[Occurrence] = []
        self.table = PublishedAlerts(table=table, publish=self.events.append)

    async def note(self, kind: OccurrenceKind, *, at: int = 10, alert: str = "ops") -> None:
        """Something that lasts."""
        one = Occurrence(kind=kind, at=at, tenant="default", job_id="nightly", uid="u", count=3)
        await self.table.note([Noted(alert=alert, subject="nightly", occurrence=one, lasts=True)], {})


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    database = HistoryDatabase(url="sqlite://")
    table = SqlAlertTable(database=database, tenant="default")
    yield Room(table)
    await table.close()
    database.close()


async def test_a_finding_is_an_event_once(room: Room) -> None:
    """However often it is found while it lasts; its subject is the alert."""
    for at in (10, 20):
        await room.note(OccurrenceKind.FAILING, at=at)
    (one,) = room.events
    assert (one.kind, one.at, one.job_id, one.count, one.subject) == ("failing", 10, "nightly", 3, "ops")


async def test_what_was_an_event_before_is_no_second_one(room: Room) -> None:
    """A failed execution was told when it ended."""
    await room.note(OccurrenceKind.FINAL_FAILED)
    assert room.events == []


async def test_an_end_is_an_event(room: Room) -> None:
    """With the word of what has ended; found again, it is told again."""
    await room.note(OccurrenceKind.OVERDUE)
    await room.table.recover(await room.table.open((), 10), 50)
    await room.note(OccurrenceKind.OVERDUE, at=60)
    assert [one.kind for one in room.events] == ["overdue", "recovered", "overdue"]
    end = room.events[1]
    assert (end.at, end.tenant, end.job_id, end.subject, end.reason) == (
        50,
        "default",
        "nightly",
        "nightly",
        "overdue",
    )
