"""All jobs follow a changed calendar, whatever fails in between (SPEC section 3, Calendars)."""

import json

import pytest

from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Taken
from scheduler_service.domain.turn_events import Replanned
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_tables import StoredCalendar
from scheduler_service.services.shared_calendars import Calendars, CalendarUsers, find_name
from scheduler_service.system_jobs.calendar_rounds import SETTLED_MS, TAKEN_OVER_MS, CalendarRounds
from tests.manual_clock import ManualClock
from tests.present import present
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, start
from tests.unit.services.memory_calendars import MemoryCalendars

pytestmark = pytest.mark.anyio
NINE = {"period": "0 0 9 * * ?"}


class Told:
    """A process that has stored a calendar, jobs that use it, and what they answer when they are told."""

    def __init__(self) -> None:
        self.world = World()
        self.table = MemoryCalendars()
        self.clock = ManualClock(wall=START)
        self.calendars = Calendars(table=self.table, clock=self.clock)
        self.answers: dict[str, list[Reply | StoreUnavailable]] = {}
        self.told: list[tuple[str, int]] = []
        self.rounds = self.make(self.calendars)

    def make(self, calendars: Calendars) -> CalendarRounds:
        users = CalendarUsers(catalogue=self.world.catalogue)
        return CalendarRounds(
            calendars=calendars, users=users, deliver=self.deliver, clock=self.clock, log=self.world.log
        )

    async def deliver(self, job_id: str, command: Command) -> Reply:
        assert isinstance(command.event, Replanned)
        self.told.append((job_id, command.event.calendar))
        answers = self.answers.get(job_id)
        answer = answers.pop(0) if answers else Taken()
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    async def put(self, name: str = "work") -> StoredCalendar:
        return present(await self.calendars.put("default", name, {}))

    async def put_jobs(self) -> None:
        """Three use the calendar, others none or another one."""
        async with self.world.client() as client:
            for number in range(3):
                await start(client, f"on{number}", timer=NINE)
            await start(client, "off", timer=NINE)
        # The world knows no calendars; only the texts of definitions name one.
        for number, entry in enumerate(
            sorted(self.world.catalogue.entries.values(), key=lambda one: one.job_id)
        ):
            used = "other" if entry.job_id == "off" else ("work", {"name": "work"}, "work")[number % 3]
            text = definition(jobId=entry.job_id, timer={**NINE, "calendar": used})
            self.world.store.texts[entry.uid, entry.revision] = json.dumps(text).encode()


@pytest.fixture
def told() -> Told:
    return Told()


async def test_all_jobs_follow_in_the_end(told: Told) -> None:
    """Also one in a process that does not know the change yet, or whose store is away."""
    await told.put_jobs()
    told.rounds.tell(await told.put())
    behind = Refusal(RefusalCode.CONFLICT, "not at 1 here yet")
    told.answers = {
        "on0": [behind],
        "on1": [StoreUnavailable("away")],
        "on2": [Refusal(RefusalCode.ABSENT, "gone")],
    }
    assert not await told.rounds.round()
    assert told.told == [("on0", 1), ("on1", 1), ("on2", 1)]
    assert [one.name for one in told.calendars.untold()] == ["work"]
    assert await told.rounds.round()
    assert (len(told.told), told.rounds.is_idle) == (6, True)
    told.clock.advance(SETTLED_MS + 1)
    assert not told.rounds.is_idle
    assert await told.rounds.round()
    assert (told.calendars.untold(), told.rounds.is_idle) == ([], True)
    assert await told.rounds.round()
    assert len(told.told) == 9


async def test_a_job_that_was_created_by_the_earlier_days_follows(told: Told) -> None:
    """It was compiled before the change, and is stored when the others have been told."""
    told.rounds.tell(await told.put())
    assert await told.rounds.round()
    assert told.told == []
    await told.put_jobs()
    assert await told.rounds.round()
    assert told.told == []
    told.clock.advance(SETTLED_MS + 1)
    assert await told.rounds.round()
    assert [job_id for job_id, _ in told.told] == ["on0", "on1", "on2"]
    assert told.calendars.untold() == []


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_calendar_that_was_removed_under_a_new_job_is_restored(is_killed: bool, told: Told) -> None:
    """Also by another process, where who removed it was killed; its jobs go on as if it had not been gone."""
    removed = present(await told.calendars.remove(await told.put()))
    told.rounds.tell(removed)
    await told.put_jobs()
    if is_killed:
        told.calendars = Calendars(table=told.table, clock=told.clock)
        await told.calendars.load()
        told.rounds = told.make(told.calendars)
    assert await told.rounds.round()
    assert told.calendars.get("default", "work") is None
    told.clock.advance(TAKEN_OVER_MS + 1)
    assert not await told.rounds.round()
    found = present(told.calendars.get("default", "work"))
    assert (found.version, found.changed_at, found.document) == (3, START, b"{}")
    assert await told.rounds.round()
    assert told.told == [("on0", 3), ("on1", 3), ("on2", 3)]
    assert told.calendars.untold() == []


async def test_a_removed_calendar_that_nobody_uses_stays_away(told: Told) -> None:
    """And one that was stored anew meanwhile is not what it was before."""
    for name in ("work", "new"):
        removed = present(await told.calendars.remove(await told.put(name)))
        told.rounds.tell(removed)
    told.clock.advance(SETTLED_MS + 1)
    assert await told.rounds.round()
    assert (told.calendars.untold(), told.calendars.list("default")) == ([], [])
    stored = await told.put("new")
    assert not await told.calendars.restore(removed)
    assert told.calendars.get("default", "new") == stored


async def test_another_process_takes_over_what_one_has_left(told: Told) -> None:
    """Who has stored a change ends before all jobs are told: after a while any process tells them."""
    await told.put_jobs()
    await told.put()
    there = Calendars(table=told.table, clock=told.clock)
    await there.load()
    rounds = told.make(there)
    assert await rounds.round()
    assert told.told == []
    told.clock.advance(TAKEN_OVER_MS + 1)
    assert await rounds.round()
    assert [job_id for job_id, _ in told.told] == ["on0", "on1", "on2"]
    await told.calendars.look()
    assert told.calendars.untold() == []


@each_row(
    ("timer", "expected"),
    [
        ({"calendar": "work"}, True),
        ({"calendar": {"name": "work", "days": "free"}}, True),
        ('{"calendar": "work"}', True),
        (r'{"\u0063alendar": "work"}', True),
        ('{"calendar":', False),
        ("calendar", False),
        ({"calendar": "working"}, False),
        ({"period": "5m"}, False),
        (None, False),
    ],
)
def test_a_job_that_uses_it_is_known_by_its_definition(timer: object, expected: bool) -> None:
    text = json.dumps({"jobName": "the calendar work", "timer": timer}).encode()
    assert (find_name(text) == "work") is expected
