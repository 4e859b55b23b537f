"""Calendars over the API (SPEC section 3, Calendars)."""

from typing import Any

import pytest

from scheduler_service.engine.program import Surroundings
from scheduler_service.services.shared_calendars import Calendars
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers
from tests.unit.services.memory_calendars import MemoryCalendars

pytestmark = pytest.mark.anyio
OFFICE = {"free": ["2026-01-05/2026-01-06"], "work": ["2026-01-10"], "timezone": "UTC"}
NINE = {"period": "0 0 9 * * ?", "calendar": "office"}


class Kept:
    """A service with calendars; it is 2026-01-01, a Thursday."""

    def __init__(self) -> None:
        self.calendars = Calendars(table=MemoryCalendars(), clock=ManualClock(wall=START))
        self.told: list[str] = []
        self.world = World(
            surroundings=Surroundings(find_calendar=self.calendars.find),
            calendars=self.calendars,
            tell_calendar=lambda stored: self.told.append(stored.name),
        )
        self.client = self.world.client()

    async def put(self, name: str = "office", **body: Any) -> Any:
        answer = await self.client.put(f"/calendars/{name}", json=body or OFFICE)
        assert answer.status_code == 200, answer.text
        return answer.json()


async def test_a_calendar_is_stored_read_and_removed() -> None:
    """With its days of a year; an equal one changes nothing, each change is audited and told to the jobs."""
    kept = Kept()
    data = (await kept.put())["data"]
    assert (data["name"], data["week"], data["version"]) == ("office", [1, 2, 3, 4, 5], 1)
    assert (await kept.put())["data"]["version"] == 1
    assert kept.told == ["office"]
    assert (await kept.put(**{**OFFICE, "work": []}))["data"]["version"] == 2
    listed = (await kept.client.get("/calendars")).json()["data"]["items"]
    assert [one["name"] for one in listed] == ["office"]
    await kept.put()
    found = (await kept.client.get("/calendars/office")).json()["data"]
    assert (found["year"], found["freeDays"], found["makeUpDays"]) == (
        2026,
        ["2026-01-05/2026-01-06"],
        ["2026-01-10"],
    )
    assert found["workingDays"] == 261 - 2 + 1
    audit = (await kept.client.get("/audit")).json()["data"]["items"]
    assert [(one["operation"], one["kind"], one["subject"]) for one in audit] == [
        ("putCalendar", "calendar", "office")
    ] * 3
    assert (await kept.client.delete("/calendars/office")).status_code == 200
    for method in ("GET", "DELETE"):
        assert (await kept.client.request(method, "/calendars/office")).status_code == 404


async def test_a_used_one_stays() -> None:
    """409, with the job; a name that is not there is a 422 at its place in the definition."""
    kept = Kept()
    posted = definition(timer=NINE, jobId="on")
    refused = await kept.client.post("/jobs/on", json=posted)
    assert pointers(refused) == [("/timer/calendar", "unknown_calendar")]
    await kept.put()
    created = await kept.client.post("/jobs/on", json=posted)
    assert created.status_code == 201, created.text
    assert created.json()["data"]["nextFireTime"] == "2026-01-01T09:00:00.000Z"
    again = await kept.client.post("/jobs/two", json=definition(timer=NINE, jobId="two"))  # from the cache
    assert again.json()["data"]["nextFireTime"] == "2026-01-01T09:00:00.000Z"
    refused = await kept.client.delete("/calendars/office")
    assert (refused.status_code, pointers(refused)) == (409, [("/calendarName", "used")])
    found = (await kept.client.get("/calendars/office")).json()["data"]
    assert found["usedBy"] == {"jobs": ["on", "two"], "isCapped": False}


async def test_what_a_change_would_do_is_shown_before_it_is_stored() -> None:
    """The next firings of each job, as they are and as they would be."""
    kept = Kept()
    await kept.put()
    await kept.client.post("/jobs/on", json=definition(timer=NINE, jobId="on"))
    changed = {"free": ["2026-01-01/2026-01-04"]}
    shown = (await kept.client.post("/calendars/office/preview", json=changed)).json()["data"]
    (job,) = shown["jobs"]
    assert [one[5:10] for one in job["before"]] == ["01-01", "01-02", "01-07", "01-08", "01-09"]
    assert [one[5:10] for one in job["after"]] == ["01-05", "01-06", "01-07", "01-08", "01-09"]
    assert (shown["freeDays"], shown["isCapped"]) == (["2026-01-01/2026-01-02"], False)
    assert kept.calendars.list("default")[0].version == 1


async def test_previews_follow_it() -> None:
    """Of a timer, and over many days."""
    kept = Kept()
    await kept.put()
    answer = await kept.client.post("/timers/preview", json={"timer": NINE, "count": 3})
    data = answer.json()["data"]
    assert [one["utc"][5:16] for one in data["firings"]] == ["01-01T09:00", "01-02T09:00", "01-07T09:00"]
    assert data["description"] == "At 09:00 on working days of office, UTC time"
    answer = await kept.client.post("/timers/outlook", json={"timer": NINE, "days": 10})
    assert answer.json()["data"]["total"] == 6
    unknown = {"timer": {**NINE, "calendar": "nowhere"}}
    assert pointers(await kept.client.post("/timers/preview", json=unknown)) == [
        ("/timer/calendar", "unknown_calendar")
    ]


@each_row(
    ("body", "pointer"),
    [
        ({"free": ["2026-02-30"]}, "/free/0"),
        ({"week": [0]}, "/week/0"),
        ({"timezone": "Moon"}, "/timezone"),
        ({"country": "nowhere"}, "/country"),
        ({"holidays": []}, "/holidays"),
    ],
)
async def test_what_is_wrong_is_422(body: dict[str, Any], pointer: str) -> None:
    answer = await Kept().client.put("/calendars/office", json=body)
    assert answer.status_code == 422
    assert pointer in [one for one, _ in pointers(answer)]


async def test_a_calendar_without_the_present_year_warns() -> None:
    """Where it lists days at all."""
    kept = Kept()
    assert [one["code"] for one in (await kept.put(free=["2024-01-01"]))["warnings"]] == ["year_missing"]
    assert (await kept.put("plain", week=[1]))["warnings"] == []


async def test_another_tenants_calendar_is_not_there() -> None:
    """Names are a tenant's own."""
    kept = Kept()
    await kept.calendars.put("team", "office", OFFICE)
    assert (await kept.client.get("/calendars")).json()["data"]["items"] == []
    assert (await kept.client.get("/calendars/office")).status_code == 404
    refused = await kept.client.post("/jobs/on", json=definition(timer=NINE, jobId="on"))
    assert pointers(refused) == [("/timer/calendar", "unknown_calendar")]
