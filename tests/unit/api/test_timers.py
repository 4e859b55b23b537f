"""Coming firings: of a job, of a timer that is tried, and of all jobs (SPEC section 3)."""

from typing import Any

import httpx
import pytest

from tests.unit.api.world import definition, pointers

pytestmark = pytest.mark.anyio
MINUTELY = {"dueTime": "0s", "period": "0 * * * * ?"}
HOURLY = {"dueTime": "0s", "period": "0 0 * * * ?"}


async def test_next_shows_the_coming_firings(client: httpx.AsyncClient) -> None:
    """Dialect, a sentence in words, local and UTC times (SPEC section 3)."""
    await client.post("/jobs/a", json=definition(timer={**HOURLY, "timezone": "Asia/Shanghai"}))
    shown = (await client.get("/jobs/a/next?count=2")).json()["data"]
    assert (shown["kind"], shown["dialect"]) == ("cron", "quartz")
    assert shown["description"]
    assert [one["utc"] for one in shown["firings"]] == [
        "2026-01-01T01:00:00.000Z",
        "2026-01-01T02:00:00.000Z",
    ]
    assert shown["firings"][0]["local"].startswith("2026-01-01T09:00:00")
    await client.put("/jobs/a?active=0")
    assert (await client.get("/jobs/a/next")).json()["data"]["firings"] == []
    assert (await client.get("/jobs/none/next")).status_code == 404
    assert (await client.get("/jobs/a/next?count=1001")).status_code == 422


async def test_a_timer_is_previewed_without_a_job(client: httpx.AsyncClient) -> None:
    """`{timer, from, count}`; `until`: all between two moments (SPEC sections 3, 10)."""
    asked = {"timer": {"dueTime": "10s", "period": "R4/PT3S"}, "from": "2026-01-01T00:00:00Z"}
    shown = (await client.post("/timers/preview", json=asked)).json()["data"]
    assert [one["utc"][-7:-1] for one in shown["firings"]] == ["10.000", "13.000", "16.000", "19.000"]
    asked["until"] = "2026-01-01 00:00:13"
    assert len((await client.post("/timers/preview", json=asked)).json()["data"]["firings"]) == 2
    text = {"timer": '{"dueTime":"0s","period":"@daily"}', "count": 1}
    assert (await client.post("/timers/preview", json=text)).json()["data"]["dialect"] == "unix"
    warned = await client.post("/timers/preview", json={"timer": {"dueTime": "5s", "period": ""}})
    assert warned.json()["warnings"][0]["code"] == "due_time_ignored"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"timer": {"dueTime": "0s", "period": "61 * * * * ?"}}, "/timer/period"),
        ({"timer": {"period": 5}}, "/timer/period"),
        ({"timer": "x"}, "/timer"),
        ({"timer": MINUTELY, "from": "soon"}, "/from"),
        ({"timer": MINUTELY, "until": "soon"}, "/until"),
        ({"timer": MINUTELY, "count": 1001}, "/count"),
        ({"timer": MINUTELY, "count": True}, "/count"),
        ({"timers": MINUTELY}, "/timers"),
        ([], ""),
    ],
)
async def test_a_preview_is_refused_as_a_job_would_be(
    client: httpx.AsyncClient, body: Any, pointer: str
) -> None:
    """422 with the pointer (SPEC section 10)."""
    response = await client.post("/timers/preview", json=body)
    assert response.status_code == 422
    assert pointers(response)[0][0] == pointer


async def test_upcoming_merges_all_jobs_in_order(client: httpx.AsyncClient) -> None:
    """What is planned between two moments, page by page (SPEC section 10)."""
    await client.post("/jobs/m", json=definition(timer=MINUTELY))
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    query = {"from": "2026-01-01T00:58:30Z", "to": "2026-01-01T01:01:00Z", "limit": "2"}
    page = (await client.get("/upcoming", params=query)).json()["data"]
    assert [(one["jobId"], one["plannedAt"][11:16]) for one in page["items"]] == [
        ("m", "00:59"),
        ("h", "01:00"),
    ]
    query["cursor"] = page["nextCursor"]
    rest = (await client.get("/upcoming", params=query)).json()["data"]
    assert [(one["jobId"], one["plannedAt"][11:16]) for one in rest["items"]] == [
        ("m", "01:00"),
        ("m", "01:01"),
    ]
    assert rest["nextCursor"] is None
    assert (await client.get("/upcoming?cursor=x")).status_code == 422
