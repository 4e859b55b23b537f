"""Jobs over a calendar on every host: which days they fire, and how they follow a change (SPEC section 3)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from client_sdk.models import parse_definition
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.replies import Reactivated, Refusal, RefusalCode, Reply, Taken
from scheduler_service.domain.turn_events import (
    Activated,
    Created,
    Event,
    Paused,
    Replanned,
    Triggered,
    Updated,
)
from scheduler_service.engine.compile import compile_stored
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.hosts.host_dependencies import Core
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.timing.calendar_days import FREE, Calendar, DaySpan, make_calendar
from tests.conformance.hosts.houses import HOUSES, AnyHouse, DaprHouse, moved
from tests.unit.hosts.house import START

pytestmark = pytest.mark.anyio
BEFORE_MIDNIGHT = 1_700_006_370_000 - START
"""From the start of a house to half a minute before a Wednesday, in UTC."""
WEDNESDAY = 19_676
"""2023-11-15, in days since 1970."""
MIDNIGHT = WEDNESDAY * 86_400_000
CREATED = Created("", b"")
TEN_SECONDS = {"period": "0/10 * * * * ?", "calendar": "office"}


class Office:
    """A house half a minute before midnight, whose processes know the calendar `office`."""

    def __init__(self, house: AnyHouse) -> None:
        self.house = house
        self.days: Calendar | None = None
        self.around = Surroundings(find_calendar=lambda _, __: self.days)
        self.received: list[bytes] = []
        core = Core(self._compile, compile_received=self._compile_received)
        if isinstance(house, DaprHouse):
            house.core = core
        else:
            house.options["core"] = core
            house.open()

    async def start(self) -> "Office":
        self.house.clock.advance(BEFORE_MIDNIGHT)
        await self.house.start()
        self.put(1, WEDNESDAY)
        return self

    def put(self, version: int, *free: int) -> None:
        """The calendar as every process knows it from now on."""
        layers = [(FREE, [DaySpan(day, day) for day in free])]
        now = self.house.clock.now().wall
        self.days = make_calendar(
            "office", version=version, changed_at=now, week=0b1111111, layers=layers, zone=None
        )

    async def create(self, job_id: str = "job", event: Event = CREATED) -> Reply:
        """A job that fires every ten seconds on the days of the calendar."""
        base: dict[str, Any] = {"jobId": job_id, "jobName": "a job", "creator": "1", "creatorName": "one"}
        text = json.dumps(
            {**base, "timer": TEN_SECONDS, "request": [{"url": "http://target.test/run"}]}
        ).encode()
        program = await self._compile(text, "default")
        return await self.house.host(job_id, Command(event, definition=Definition(text, program)))

    async def tell(self, version: int, job_id: str = "job") -> Reply:
        """As the rounds tell each job of a change."""
        return await self.house.host(job_id, Command(Replanned(version)))

    def fired(self, job_id: str = "job") -> list[int]:
        """The planned moments of all executions, in seconds from midnight."""
        found = {
            record.execute_number: (record.planned_at - MIDNIGHT) // 1_000
            for batch in self.house.batches(job_id)
            for record in batch.records
            if isinstance(record, ExecutionRecord) and record.triggered_by == "timer"
        }
        return [found[number] for number in sorted(found)]

    async def _compile_received(self, text: bytes, tenant: str) -> Program:
        self.received.append(text)
        return await self._compile(text, tenant)

    async def _compile(self, text: bytes, tenant: str) -> Program:
        return compile_stored(parse_definition(json.loads(text)), self.around).program


@pytest.fixture(params=HOUSES)
async def office(request: pytest.FixtureRequest) -> AsyncIterator[Office]:
    opened = await Office(HOUSES[request.param]()).start()
    yield opened
    await opened.house.close()


async def test_it_fires_on_the_right_days_and_follows_a_change(office: Office) -> None:
    """The day that begins is free; a change brings its moments back, and another one takes them away."""
    await office.create()
    await office.house.advance(60_000)
    assert office.fired() == [-20, -10]
    office.put(2)
    assert await office.tell(2) == Taken()
    await office.house.advance(15_000)
    assert office.fired() == [-20, -10, 30, 40]
    office.put(3, WEDNESDAY)
    assert await office.tell(3) == Taken()
    await office.house.advance(30_000)
    assert office.fired() == [-20, -10, 30, 40]


async def test_a_node_looks_at_calendars_for_what_another_one_took_in(office: Office) -> None:
    """Who takes in a definition has looked itself."""
    await office.create()
    assert await office.create(event=Updated(0)) == Taken()
    assert len(office.received) == (1 if isinstance(office.house, DaprHouse) else 0)


async def test_any_turn_follows_a_change(office: Office) -> None:
    """Also one of which the job was not told, whatever the turn is for."""
    await office.create()
    await office.house.advance(35_000)
    office.put(2)
    await office.house.host("job", Command(Triggered()))
    await office.house.advance(10_000)
    assert office.fired() == [-20, -10, 10]


async def test_a_change_outlives_the_death_of_who_was_to_tell_it(office: Office) -> None:
    """A process dies between the change and the telling; what was planned since fires, each moment once."""
    await office.create()
    await office.house.advance(35_000)
    office.put(2)
    await office.house.crash()
    await office.house.recover()
    began = office.house.clock.now().wall
    assert await office.tell(2) == Taken()
    assert await office.tell(2) == Taken()
    await office.house.advance(10_000)
    planned = office.fired()
    due = [second for second in range(10, 60, 10) if MIDNIGHT + second * 1_000 <= began + 10_000]
    assert planned == [-20, -10, *due]


async def test_a_process_that_does_not_know_the_change_says_so(office: Office) -> None:
    """Nothing is changed, and the job is told again."""
    await office.create()
    answer = await office.tell(2)
    assert isinstance(answer, Refusal)
    assert answer.code is RefusalCode.CONFLICT
    await office.house.advance(60_000)
    assert office.fired() == [-20, -10]


async def test_a_pause_over_a_change(office: Office) -> None:
    """The resume plans by the days of then; what the pause kept away is counted by them too."""
    await office.create()
    await office.house.deliver(Paused())
    await office.house.advance(35_000)
    office.put(2)
    assert await office.tell(2) is not None
    await office.house.advance(20_000)
    assert office.fired() == []
    assert isinstance(await office.house.deliver(Activated()), Reactivated)
    await office.house.advance(10_000)
    assert office.fired() == [30]


async def test_a_job_that_moves_has_the_days_of_its_new_node() -> None:
    """A calendar is changed, and the job's actor moves before anybody tells it."""
    office = await Office(DaprHouse()).start()
    assert isinstance(office.house, DaprHouse)
    job_id = moved(office.house)
    await office.create(job_id)
    await office.house.advance(35_000)
    office.put(2)
    await office.house.add("two")
    await office.house.advance(1_000)
    assert await office.tell(2, job_id) == Taken()
    await office.house.advance(10_000)
    assert office.fired(job_id)[2:] == [10]
    await office.house.close()
