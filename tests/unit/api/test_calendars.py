"""Calendars over the API (SPEC section 3, Calendars)."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler_service.engine.program import Surroundings
from scheduler_service.ports.shared_tables import REMOVED
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

    def __init__(self, table: MemoryCalendars | None = None) -> None:
        self.table = table or MemoryCalendars()
        self.calendars = Calendars(table=self.table, clock=ManualClock(wall=START))
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
    assert audit[1]["difference"] == [{"pointer": "/work", "before": ["2026-01-10"], "after": []}]
    assert (await kept.client.delete("/calendars/office")).status_code == 200
    for method in ("GET", "DELETE"):
        assert (await kept.client.request(method, "/calendars/office")).status_code == 404


async def test_a_change_may_say_which_version_it_is_of() -> None:
    """`If-Match`: the version, 0 for none; another one is a 412 that changes nothing."""
    kept = Kept()
    put = kept.client.put
    for given, status, version in (('"1"', 412, None), ('"0"', 200, 1), ('"0"', 412, None), ('"1"', 200, 2)):
        week = {"week": [1, (version or 6) + 1]}
        answer = await put("/calendars/office", json=week, headers={"If-Match": given})
        assert answer.status_code == status, answer.text
        if version is not None:
            assert (answer.headers["etag"], answer.json()["data"]["version"]) == (f'"{version}"', version)
    answer = await kept.client.get("/calendars/office")
    assert (answer.headers["etag"], answer.json()["data"]["week"]) == ('"2"', [1, 3])
    stale = await kept.client.delete("/calendars/office", headers={"If-Match": '"1"'})
    assert (stale.status_code, pointers(stale)) == (412, [("/If-Match", "precondition")])
    await kept.client.delete("/calendars/office")
    assert (await put("/calendars/office", json={}, headers={"If-Match": '"0"'})).headers["etag"] == '"4"'


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


class Late(MemoryCalendars):
    """A table at which a job is created while a calendar is removed."""

    def __init__(self) -> None:
        super().__init__()
        self.at_removal: Callable[[], Awaitable[object]] | None = None

    async def put(self, tenant: str, name: str, document: bytes, at: int, **more: Any) -> bool:
        if document.startswith(REMOVED) and self.at_removal is not None:
            await self.at_removal()
        return await super().put(tenant, name, document, at, **more)


async def test_a_removal_looks_again() -> None:
    """A job that was compiled before it, and is stored behind the first look, keeps its calendar: 409."""
    table = Late()
    kept = Kept(table)
    await kept.put()
    posted = definition(timer=NINE, jobId="on")
    table.at_removal = lambda: kept.client.post("/jobs/on", json=posted)
    refused = await kept.client.delete("/calendars/office")
    assert (refused.status_code, pointers(refused)) == (409, [("/calendarName", "used")])
    assert (await kept.client.get("/jobs/on")).json()["data"]["nextFireTime"] == "2026-01-01T09:00:00.000Z"
    assert (await kept.client.get("/calendars/office")).json()["data"]["version"] == 3


async def test_a_definition_is_judged_by_the_calendars_of_now() -> None:
    """What another process has stored or removed a moment ago counts, for arrays too."""
    kept = Kept()
    other = Calendars(table=kept.table, clock=ManualClock(wall=START))
    stored = await other.put("default", "office", OFFICE)
    assert (await kept.client.post("/jobs/on", json=definition(timer=NINE, jobId="on"))).status_code == 201
    assert stored is not None
    await other.remove(stored)
    made = await kept.client.post("/jobs", json=[definition(timer=NINE, jobId="two")])
    assert made.json()["data"]["items"][0]["status"] == "refused"
    refused = await kept.client.post("/jobs/two", json=definition(timer=NINE, jobId="two"))
    assert pointers(refused) == [("/timer/calendar", "unknown_calendar")]


async def test_what_a_change_would_do_is_shown_before_it_is_stored() -> None:
    """The firings of each job that fires then, from the first change on; not of one that is paused."""
    kept = Kept()
    await kept.put()
    for job_id, members in (("on", {}), ("paused", {"active": 0}), ("off", {"disabled": True})):
        posted = definition(timer=NINE, jobId=job_id, **members)
        assert (await kept.client.post(f"/jobs/{job_id}", json=posted)).status_code == 201
    friday = {"period": "0 0 9 ? * 6", "calendar": "office"}
    await kept.client.post("/jobs/friday", json=definition(timer=friday, jobId="friday"))
    changed = {**OFFICE, "free": [*OFFICE["free"], "2026-02-02/2026-02-03"]}
    shown = (await kept.client.post("/calendars/office/preview", json=changed)).json()["data"]
    (job,) = shown["jobs"]
    assert (job["jobId"], job["firstChange"]) == ("on", "2026-02-02T09:00:00.000Z")
    assert [one[5:10] for one in job["before"]] == ["02-02", "02-03", "02-04", "02-05", "02-06"]
    assert [one[5:10] for one in job["after"]] == ["02-04", "02-05", "02-06", "02-09", "02-10"]
    assert shown["freeDays"] == ["2026-01-05/2026-01-06", "2026-02-02/2026-02-03"]
    assert (shown["checked"], shown["nextCursor"]) == (4, None)
    assert kept.calendars.list("default")[0].version == 1
    path, wrong = "/calendars/office/preview", {"free": ["2026-13-01"]}
    refused, soft = [await kept.client.post(f"{path}{query}", json=wrong) for query in ("", "?soft=true")]
    assert (refused.status_code, soft.json()["data"]) == (422, {"problem": refused.json()})


async def test_jobs_that_change_are_shown_in_pages() -> None:
    """Each once; a cursor is that of the same calendar and the same change."""
    kept = Kept()
    await kept.put()
    ids = [f"job-{number:03}" for number in range(120)]
    for job_id in ids:
        timer = {"dueTime": "1h", "period": "1h", "calendar": "office"} if job_id < "job-060" else NINE
        await kept.client.post(f"/jobs/{job_id}", json=definition(timer=timer, jobId=job_id))
    change, seen, pages, query = {**OFFICE, "week": [1]}, list[str](), 0, ""
    while query is not None:
        shown = await kept.client.post(f"/calendars/office/preview{query}", json=change)
        data = shown.json()["data"]
        seen += [one["jobId"] for one in data["jobs"]]
        pages, query = pages + 1, data["nextCursor"] and f"?cursor={data['nextCursor']}"
        assert data["checked"] < 20 + 50
        if pages == 1:
            other = await kept.client.post(f"/calendars/office/preview{query}", json=OFFICE)
            assert (other.status_code, pointers(other)) == (422, [("/cursor", "invalid")])
    assert (seen, pages) == (ids, 3)


async def test_dates_are_read_into_a_calendar() -> None:
    """Of a file or a list; nothing is stored. What is wrong is named with its line."""
    kept = Kept()
    event = "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:{}\r\nDTEND;VALUE=DATE:{}\r\nEND:VEVENT\r\n"
    text = "BEGIN:VCALENDAR\r\n" + event.format("20260110", "20260112") + "END:VCALENDAR\r\n"
    answer = await kept.client.post("/dates/read", json={"text": text, "calendar": OFFICE})
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert (data["format"], data["free"], data["work"]) == ("icalendar", ["2026-01-10/2026-01-11"], [])
    assert data["calendar"] == {
        **OFFICE,
        "free": ["2026-01-05/2026-01-06", "2026-01-10/2026-01-11"],
        "work": [],
        "week": [1, 2, 3, 4, 5],
        "country": None,
    }
    assert kept.calendars.list("default") == []
    answer = await kept.client.post("/dates/read", json={"text": "2026-01-06 Epiphany", "as": "work"})
    assert answer.json()["data"]["calendar"]["work"] == ["2026-01-06"]
    answer = await kept.client.post("/dates/read", json={"text": "2026-01-06\n6.1.2026"})
    assert pointers(answer) == [("/text", "invalid")]
    assert "line 2" in answer.json()["errors"][0]["message"]
    far = "\n".join(f"{year}-01-{day:02}" for year in range(1970, 2100) for day in range(1, 30, 3))
    assert pointers(await kept.client.post("/dates/read", json={"text": far})) == [("/text", "too_many")]


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
    listed = (await kept.client.get("/calendars")).json()
    assert [(one["pointer"], one["message"][:27]) for one in listed["warnings"]] == [
        ("/items/0/free", "office: it has no day of 20")
    ]


async def test_they_are_listed_in_pages() -> None:
    """By name."""
    kept = Kept()
    for name in ("a", "b", "c"):
        await kept.put(name, week=[1])
    query, seen = "?limit=2", list[list[str]]()
    while query:
        data = (await kept.client.get(f"/calendars{query}")).json()["data"]
        seen.append([one["name"] for one in data["items"]])
        query = data["nextCursor"] and f"?limit=2&cursor={data['nextCursor']}"
    assert seen == [["a", "b"], ["c"]]


async def test_another_tenants_calendar_is_not_there() -> None:
    """Names are a tenant's own."""
    kept = Kept()
    await kept.calendars.put("team", "office", OFFICE)
    assert (await kept.client.get("/calendars")).json()["data"]["items"] == []
    assert (await kept.client.get("/calendars/office")).status_code == 404
    refused = await kept.client.post("/jobs/on", json=definition(timer=NINE, jobId="on"))
    assert pointers(refused) == [("/timer/calendar", "unknown_calendar")]
