"""What a timer will do, and beside which jobs (SPEC section 10)."""

from typing import Any

import httpx
import pytest

from scheduler_service.api.counts import MOST_READ
from tests.unit.api.world import World, definition, pointers

NIGHTLY = {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"}


async def look(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """`data` of an outlook."""
    answer = await client.post("/timers/outlook", json=body)
    assert answer.is_success, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def test_a_year_of_a_timer(client: httpx.AsyncClient) -> None:
    """Per local day and hour; the days of a clock change are marked."""
    data = await look(client, timer=NIGHTLY, **{"from": "2026-03-01"}, days=366)
    assert (data["timezone"], data["total"], len(data["days"])) == ("Europe/Berlin", 366, 366)
    assert sum(data["byHour"]) == 366
    marked = {day["date"]: day for day in data["days"] if day["note"]}
    assert {date: day["note"] for date, day in marked.items()} == {
        "2026-03-29": "gap",
        "2026-10-25": "overlap",
    }
    assert marked["2026-03-29"]["first"] == marked["2026-03-29"]["last"] == "2026-03-29T01:00:00.000Z"
    assert "forward by 1 h" in marked["2026-03-29"]["noteText"]
    assert data["until"] == "2027-03-01T23:00:00.000Z"
    every_second = await look(client, timer={"period": "* * * * * ?"}, days=2)
    assert every_second["nextDay"][1]["count"] == 3_600


async def test_notes_are_in_the_language_that_the_caller_prefers(client: httpx.AsyncClient) -> None:
    """As the description of a timer is."""
    body = {"timer": NIGHTLY, "from": "2026-03-29", "days": 1}
    answer = await client.post("/timers/outlook", json=body, headers={"Accept-Language": "zh-CN"})
    (day,) = answer.json()["data"]["days"]
    assert (day["note"], day["noteText"]) == ("gap", "当天时钟拨快 1 小时")


@pytest.mark.parametrize(
    ("timer", "codes"),
    [({}, []), ({"dueTime": "2h"}, ["due_time_ignored"]), ({"startAt": "2026-01-03T00:00:00Z"}, [])],
)
async def test_the_day_of_a_single_firing_has_its_moment(
    client: httpx.AsyncClient, timer: dict[str, str], codes: list[str]
) -> None:
    """First and last are the same; what is ignored is said as by `POST /timers/preview`."""
    answer = (await client.post("/timers/outlook", json={"timer": timer, "days": 5})).json()
    shown = (await client.post("/timers/preview", json={"timer": timer})).json()
    (day,) = answer["data"]["days"]
    at = shown["data"]["firings"][0]["utc"]
    assert (day["count"], day["first"], day["last"]) == (1, at, at)
    assert [one["code"] for one in answer["warnings"]] == codes
    assert answer["warnings"] == shown["warnings"]


async def test_other_jobs_are_counted_hour_by_hour(client: httpx.AsyncClient) -> None:
    """From the next firing of each on; the job itself is left out."""
    await client.post("/jobs/often", json=definition(timer={"dueTime": "30m", "period": "10m"}))
    await client.post("/jobs/own", json=definition(timer={"dueTime": "1h", "period": "1h"}))
    data = await look(client, timer={"period": "1h", "dueTime": "1h"}, jobId="own")
    assert [hour["others"] for hour in data["nextDay"]] == [3] + [6] * 23
    assert [hour["count"] for hour in data["nextDay"]] == [0] + [1] * 23
    both = await look(client, timer={"period": "external"})
    assert [hour["others"] for hour in both["nextDay"]] == [3] + [7] * 23
    assert not both["othersAreCapped"]


async def test_of_many_jobs_the_next_firing_is_counted(client: httpx.AsyncClient, world: World) -> None:
    """Beyond those that fire soonest; the answer says so."""
    timer = {"dueTime": "90m", "period": "1h"}
    body = [{"jobId": f"j{number}", **definition(timer=timer)} for number in range(MOST_READ + 5)]
    await client.post("/jobs", json=body)
    data = await look(client, timer={"period": "external"})
    assert data["othersAreCapped"]
    assert [hour["others"] for hour in data["nextDay"]] == [0, MOST_READ + 5] + [MOST_READ] * 22


async def test_a_wrong_outlook_is_refused(client: httpx.AsyncClient) -> None:
    """With its place."""
    for body, pointer in (
        ({"timer": {"period": "often"}}, "/timer/period"),
        ({"timer": NIGHTLY, "days": 367}, "/days"),
        ({"timer": NIGHTLY, "from": "2026-02-30"}, "/from"),
        ({"timer": NIGHTLY, "from": "9999-12-31", "days": 1}, "/from"),
    ):
        refused = await client.post("/timers/outlook", json=body)
        assert [place for place, _ in pointers(refused)] == [pointer]
