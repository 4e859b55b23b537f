"""Calendars that processes share (SPEC section 3, Calendars)."""

import asyncio

import pytest

from scheduler_service.domain.errors import DefinitionError
from scheduler_service.services.shared_calendars import Calendars, find_holidays
from scheduler_service.timing.calendar_days import Calendar
from tests.manual_clock import ManualClock
from tests.present import present
from tests.rows import each_row
from tests.unit.services.memory_calendars import MemoryCalendars
from tests.unit.timing.timers import at

pytestmark = pytest.mark.anyio
NOW = at("2026-11-30T00:00:00Z")
OCTOBER = {"free": ["2026-10-01/2026-10-07"], "work": ["2026-10-10"]}


def process(table: MemoryCalendars) -> Calendars:
    return Calendars(table=table, clock=ManualClock(wall=NOW))


def day(text: str) -> int:
    return at(f"{text}T00:00:00Z") // 86_400_000


def found(calendars: Calendars) -> Calendar:
    return present(calendars.find("default", "china"))


async def test_what_one_process_stores_another_one_knows() -> None:
    """After its next look; the same value stays where nothing has changed."""
    table = MemoryCalendars()
    here, there = process(table), process(table)
    await here.load()
    await there.load()
    await here.put("default", "china", OCTOBER)
    assert there.find("default", "china") is None
    await there.look()
    calendar = found(there)
    assert [calendar.is_work(day(f"2026-10-{one}")) for one in ("01", "08", "10", "11")] == [
        False, True, True, False,
    ]  # fmt: skip
    await here.put("default", "other", {})
    await there.look()
    assert found(there) is calendar
    assert there.find("team", "china") is None
    known = present(here.get("default", "china"))
    assert await here.remove(known) is not None
    assert await here.remove(known) is None
    await there.look()
    assert there.find("default", "china") is None
    await here.put("default", "china", OCTOBER)
    assert found(here).version == 3


async def test_what_was_read_last_stays_while_the_table_is_away() -> None:
    """It is told, and that it can be read again."""
    table, told = MemoryCalendars(), []
    rests = asyncio.Queue[asyncio.Future[None]]()

    async def rest(_: float) -> None:
        waiting = asyncio.get_running_loop().create_future()
        await rests.put(waiting)
        await waiting

    calendars = Calendars(table=table, clock=ManualClock(wall=NOW), on_trouble=told.append, rest=rest)
    await calendars.put("default", "china", OCTOBER)
    calendars.start()
    for is_away in (True, False):
        waiting = await rests.get()
        table.is_away = is_away
        waiting.set_result(None)
    (await rests.get()).cancel()
    assert found(calendars).version == 1
    assert told == ["the database is away", None]
    await calendars.stop()


async def test_a_country_has_its_holidays_and_make_up_days() -> None:
    """From the package `holidays`, which a process that reads them does not need; lists win over them."""
    calendars = process(MemoryCalendars())
    document = calendars.complete({"country": "CN", "free": ["2026-01-04"]})
    await calendars.put("default", "china", document)
    calendar = found(calendars)
    assert not calendar.is_work(day("2026-10-01"))
    assert calendar.is_work(day("2026-02-14"))
    assert not calendar.is_work(day("2026-01-04"))
    assert find_holidays("CN", range(2026, 2027))["work"]


@each_row(
    ("document", "pointer"),
    [
        ({"timezone": "Nowhere"}, "/timezone"),
        ({"free": ["2026-10-01", "2026-13-01"]}, "/free/1"),
        ({"work": ["2026-10-07/2026-10-01"]}, "/work/0"),
        ({"work": ["2024-01-01/2026-10-01"]}, "/work/0"),
        ({"free": ["1.10.2026"]}, "/free/0"),
        ({"country": "XX"}, "/country"),
        ({"country": "DE-QQ"}, "/country"),
    ],
)
def test_what_is_wrong_is_refused_with_its_pointer(document: dict[str, object], pointer: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        process(MemoryCalendars()).complete(document)
    assert [one.pointer for one in caught.value.problems] == [pointer]
