"""Coming firings of a job and of all jobs, the ledger of past ones, and backfills (SPEC sections 3, 10)."""

from typing import Any

import httpx
import pytest

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.turn_events import AlarmRang
from scheduler_service.ports.delivery import Command
from tests.unit.api.world import World, definition

MINUTELY = {"dueTime": "0s", "period": "0 * * * * ?"}
HOURLY = {"dueTime": "0s", "period": "0 0 * * * ?"}


async def test_next_shows_the_coming_firings(client: httpx.AsyncClient) -> None:
    """Dialect, a sentence, local and UTC times (SPEC section 3)."""
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


async def test_what_jitter_moves_into_a_page_is_in_it(client: httpx.AsyncClient) -> None:
    """The planned moment counts, though that of the timer lies before the page."""
    await client.post("/jobs/m", json=definition(timer={**HOURLY, "jitterSeconds": 3000}))
    shown = (await client.get("/jobs/m/next?count=9")).json()["data"]["firings"]
    planned = [one["utc"] for one in shown]
    assert all(one[14:16] > "00" for one in planned), "this seed delays each"
    for place, moment in enumerate(planned):
        query = {"from": f"{moment[:14]}00:01Z", "to": planned[-1]}
        listed = (await client.get("/upcoming", params=query)).json()["data"]["items"]
        assert [one["plannedAt"] for one in listed] == planned[place:]


async def plan(client: httpx.AsyncClient, query: str) -> tuple[list[tuple[str, str]], str | None]:
    """(job, hh:mm) of a page of what is planned from 00:58:30 to 02:00, and the next cursor."""
    between = "from=2026-01-01T00:58:30Z&to=2026-01-01T02:00:00Z"
    page = (await client.get(f"/upcoming?{between}&{query}")).json()["data"]
    return [(one["jobId"], one["plannedAt"][11:16]) for one in page["items"]], page["nextCursor"]


async def test_upcoming_of_some_jobs(client: httpx.AsyncClient) -> None:
    """`jobId`, several times for several; one that is paused or not there has none (SPEC section 10)."""
    await client.post("/jobs/m", json=definition(timer=MINUTELY))
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    await client.post("/jobs/e", json=definition(timer={"period": "external"}))
    await client.post("/jobs/p", json=definition(timer=HOURLY, active=0))
    hours = [("h", "01:00"), ("h", "02:00")]
    assert await plan(client, "jobId=h") == (hours, None)
    assert await plan(client, "jobId=h&jobId=e&jobId=p&jobId=none&jobId=h") == (hours, None)
    merged, _ = await plan(client, "jobId=h&jobId=m&limit=3")
    assert merged == [("m", "00:59"), ("h", "01:00"), ("m", "01:00")]
    assert (await client.get("/upcoming?jobId=")).status_code == 422
    assert (await client.get("/upcoming?jobId=" + "j" * 128)).status_code == 200
    assert (await client.get("/upcoming?" + "&jobId=h" * 51)).status_code == 422


async def test_upcoming_with_at_most_so_many_firings_of_a_job(client: httpx.AsyncClient) -> None:
    """`perJob` counts from `from` on, not from the page's first firing (SPEC section 10)."""
    await client.post("/jobs/m", json=definition(timer=MINUTELY))
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    assert await plan(client, "perJob=1") == ([("m", "00:59"), ("h", "01:00")], None)
    all_of_two = [("m", "00:59"), ("h", "01:00"), ("m", "01:00"), ("h", "02:00")]
    assert await plan(client, "perJob=2") == (all_of_two, None)
    paged: list[tuple[str, str]] = []
    cursor = ""
    for _ in all_of_two:
        items, more = await plan(client, f"perJob=2&limit=1{cursor}")
        paged += items
        cursor = f"&cursor={more}"
    assert (paged, more) == (all_of_two, None)
    assert await plan(client, "perJob=1&jobId=h") == ([("h", "01:00")], None)
    for wrong in ("0", "1001", "x"):
        assert (await client.get(f"/upcoming?perJob={wrong}")).status_code == 422


@pytest.mark.parametrize("since", ["", "&from=2025-12-31T00:00:00Z&to=2026-01-02T00:00:00Z"])
async def test_later_pages_go_by_the_moments_of_the_first(
    world: World, client: httpx.AsyncClient, since: str
) -> None:
    """What has fired since the first page counts: no job has a further firing instead (SPEC section 10)."""
    await client.post("/jobs/m", json=definition(timer=MINUTELY))
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    first = (await client.get(f"/upcoming?perJob=1&limit=1{since}")).json()["data"]
    assert [(one["jobId"], one["plannedAt"][11:16]) for one in first["items"]] == [("m", "00:01")]
    world.wall += 90_000
    await world.deliver("m", Command(AlarmRang()))
    later = f"/upcoming?perJob=1&limit=9{since}&cursor={first['nextCursor']}"
    rest = (await client.get(later)).json()["data"]
    assert [(one["jobId"], one["plannedAt"][11:16]) for one in rest["items"]] == [("h", "01:00")]


async def test_the_ledger_of_a_job_is_listed(client: httpx.AsyncClient) -> None:
    """`GET /jobs/{jobId}/firings` (SPEC section 10)."""
    await client.post("/jobs/a", json=definition(timer=None))
    firings = (await client.get("/jobs/a/firings")).json()["data"]["items"]
    assert [one["outcome"] for one in firings] == ["fired"]
    assert (await client.get("/jobs/none/firings")).status_code == 404


HOUR = 3_600_000
MORNING = {"from": "2025-12-31 20:00:00", "to": "2026-01-01 00:00:00"}


async def fill(client: httpx.AsyncClient, expected: int = 200, **body: Any) -> Any:
    """The answer's data, or the flaws of a refusal."""
    answer = await client.post("/jobs/h/backfill", json=MORNING | body)
    assert answer.status_code == expected, answer.text
    found = answer.json()
    return found["data"] if expected == 200 else [(one["pointer"], one["code"]) for one in found["errors"]]


def hours(moments: list[dict[str, Any]]) -> list[str]:
    return [one["plannedAt"][11:16] for one in moments]


async def test_moments_before_the_creation_are_run_once(client: httpx.AsyncClient) -> None:
    """A dry run only shows them; the second time each has an execution."""
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    shown = await fill(client, dryRun=True)
    assert hours(shown["items"]) == ["20:00", "21:00", "22:00", "23:00", "00:00"]
    assert [one["executionId"] for one in shown["items"]] == [None] * 5
    run = await fill(client)
    assert [one["executeNumber"] for one in run["items"]] == [1, 2, 3, 4, 5]
    listed = (await client.get("/jobs/h/executions")).json()["data"]["items"]
    assert {one["executionId"] for one in run["items"]} == {one["executionId"] for one in listed}
    again = await fill(client)
    assert (again["items"], hours(again["left"])) == ([], hours(shown["items"]))


async def test_which_moments(client: httpx.AsyncClient, world: World) -> None:
    """What fired is not missing; `failed` runs what ended badly, `all` everything but what is under way."""
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    for status in (200, 404):
        world.wall += HOUR
        await world.deliver("h", Command(AlarmRang()))
        await world.answer_calls(status)
    world.wall += HOUR
    await world.deliver("h", Command(AlarmRang()))
    span = {"from": "2026-01-01 00:00:00", "to": "2026-01-01 03:00:00", "dryRun": True}
    assert hours((await fill(client, **span))["items"]) == ["00:00"]
    assert hours((await fill(client, **span, which="failed"))["items"]) == ["00:00", "02:00"]
    everything = await fill(client, **span, which="all")
    assert hours(everything["items"]) == ["00:00", "01:00", "02:00"]
    assert [(one["plannedAt"][11:16], one["state"]) for one in everything["left"]] == [
        ("03:00", "processing")
    ]


async def test_a_key_runs_it_once(client: httpx.AsyncClient) -> None:
    """The same answer, though the moments are no longer missing (SPEC section 10)."""
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    headers = {"Idempotency-Key": "once"}
    first = (await client.post("/jobs/h/backfill", json=MORNING, headers=headers)).json()["data"]
    again = (await client.post("/jobs/h/backfill", json=MORNING, headers=headers)).json()["data"]
    assert again == first
    assert len((await client.get("/jobs/h/executions")).json()["data"]["items"]) == 5


async def test_who_asked_is_told_of_each(client: httpx.AsyncClient, world: World) -> None:
    """One line in the audit, with the range and the number of executions (SPEC section 14)."""
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    await fill(client)
    line = (await client.get("/audit?operation=backfillJob")).json()["data"]["items"][0]
    assert line["given"] == MORNING | {"which": "missing", "executions": 5}


async def test_a_timing_has_its_own_moments(client: httpx.AsyncClient, world: World) -> None:
    """Its grid begins with it, and R counts from there."""
    await client.post("/jobs/h", json=definition(timer={"dueTime": "0s", "period": "R3/PT1H"}))
    world.wall += 10 * HOUR
    shown = await fill(client, **{"from": "2025-12-01 00:00:00", "to": "2026-01-01 10:00:00"}, dryRun=True)
    assert (hours(shown["items"]), hours(shown["left"])) == (["01:00", "02:00"], ["00:00"])


FIRED = ["00:00", "01:00", "04:30", "05:30"]


@pytest.mark.parametrize(
    ("timer", "missing", "left"),
    [
        ({"dueTime": "0s", "period": "1h"}, ["02:00", "03:00", "04:00"], FIRED),
        ({"dueTime": "0s", "period": "R4/PT1H"}, ["02:00", "03:00"], FIRED),
        (
            {"dueTime": "2025-12-31 23:30:00", "period": "1h"},
            ["23:30", "02:30", "03:30"],
            ["00:30", "01:30", "04:30", "05:30"],
        ),
        (HOURLY, ["23:00", "00:00", "02:00", "03:00", "04:00"], ["01:00", "05:00"]),
    ],
)
async def test_what_a_pause_has_missed_is_run(
    client: httpx.AsyncClient, world: World, timer: dict[str, str], missing: list[str], left: list[str]
) -> None:
    """A resumption begins another grid; what was planned before it is in the ledger, and nothing else."""

    async def pass_by(minutes: int) -> None:
        for _ in range(minutes // 10):
            world.wall += HOUR // 6
            await world.deliver("h", Command(AlarmRang()))
            await world.answer_calls(200)

    await client.post("/jobs/h", json=definition(timer=timer))
    await world.answer_calls(200)
    await pass_by(100)
    await client.put("/jobs/h?active=0")
    await pass_by(170)
    await client.put("/jobs/h?active=1")
    await world.answer_calls(200)
    await pass_by(80)
    world.wall += HOUR if "R4" in timer["period"] else 0
    to = rfc3339(world.wall)
    shown = await fill(client, **{"from": "2025-12-31 23:00:00", "to": to}, dryRun=True)
    assert (hours(shown["items"]), hours(shown["left"])) == (missing, left)
    begun = await fill(client, **{"from": "2026-01-01 03:00:00", "to": to})
    assert hours(begun["items"]) == [one for one in missing if "03:00" <= one < "23:00"]


@pytest.mark.parametrize(
    ("body", "flaw"),
    [
        ({"to": "2026-02-01 00:00:00"}, ("/to", "in_the_future")),
        ({"to": "2025-12-31 19:00:00"}, ("/to", "range")),
        ({"from": "2025-01-01 00:00:00"}, ("/to", "too_many")),
        ({"from": "yesterday"}, ("/from", "invalid")),
        ({"which": "some"}, ("/which", "choice")),
        ({"more": 1}, ("/more", "unknown_field")),
    ],
)
async def test_what_is_wrong_is_named(
    client: httpx.AsyncClient, body: dict[str, Any], flaw: tuple[str, str]
) -> None:
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    assert await fill(client, 422, **body) == [flaw]


async def test_jobs_without_moments(client: httpx.AsyncClient) -> None:
    await client.post("/jobs/h", json=definition(timer={"period": "external"}))
    assert await fill(client, 422) == [("/jobId", "no_moments")]
    assert (await client.post("/jobs/none/backfill", json=MORNING)).status_code == 404
