"""Statistics per day through the API: which days and which jobs, and what is refused (SPEC section 10)."""

import httpx
import pytest

from tests.unit.api.world import World, definition, pointers, start

BAD_SPANS = (
    ("from=2026-01-02&to=2026-01-01", "/from", "range"),
    ("from=2025-01-01", "/from", "range"),
    ("from=2026-13-01", "/from", "invalid"),
    ("from=2026-02-30", "/from", "invalid"),
    ("to=1969-12-31", "/to", "invalid"),
    ("to=0001-01-01", "/to", "invalid"),
    ("to=2026-01-01T00:00:00Z", "/to", "invalid"),
    ("to=2026-1-1", "/to", "invalid"),
    ("to=٢٠٢٦-01-01", "/to", "invalid"),
    ("since=2026-01-01", "/since", "unknown_parameter"),
    ("from=2026-01-01&from=2026-01-02", "/from", "repeated"),
)


async def ended(client: httpx.AsyncClient, world: World, job_id: str, **members: object) -> None:
    """A job with one execution that has succeeded."""
    await start(client, job_id, **members)
    await world.answer_calls()


async def test_a_week_up_to_today_is_shown(client: httpx.AsyncClient, world: World) -> None:
    """By default; with one bound the other is made of it."""
    await ended(client, world, "a")
    shown = (await client.get("/jobs/a/statistics")).json()["data"]
    assert (shown["jobId"], shown["from"], shown["to"]) == ("a", "2025-12-26", "2026-01-01")
    assert (shown["total"]["executions"], shown["total"]["byOutcome"]["succeeded"]) == (1, 1)
    assert shown["total"]["lateness"]["p50"] is None
    day = (await client.get("/statistics?to=2025-11-03")).json()["data"]
    assert (day["from"], day["to"], day["total"]["executions"]) == ("2025-10-28", "2025-11-03", 0)
    later = (await client.get("/statistics?from=9999-12-31")).json()["data"]
    assert (later["from"], later["to"]) == ("9999-12-31", "9999-12-31")
    first = (await client.get("/statistics?to=1970-01-01")).json()["data"]
    assert (first["from"], first["to"]) == ("1969-12-26", "1970-01-01")


@pytest.mark.parametrize("path", ["/statistics", "/jobs/a/statistics"])
@pytest.mark.parametrize(("query", "pointer", "code"), BAD_SPANS)
async def test_bad_spans_are_refused(
    client: httpx.AsyncClient, path: str, query: str, pointer: str, code: str
) -> None:
    """With the pointer of the parameter; 92 days of all jobs at most, 400 of one."""
    await client.post("/jobs/a", json=definition())
    if path.startswith("/jobs") and query == "from=2025-01-01":
        assert (await client.get(f"{path}?{query}")).status_code == 200
        query = "from=2024-11-01"
    refused = await client.get(f"{path}?{query}")
    assert (refused.status_code, pointers(refused)) == (422, [(pointer, code)])


async def test_jobs_are_chosen_by_id_and_label(client: httpx.AsyncClient, world: World) -> None:
    """Both must fit where both are given."""
    await ended(client, world, "a", labels={"team": "ops"})
    await ended(client, world, "b", labels={"team": "web"})
    await ended(client, world, "c")
    for query, number in (
        ("", 3),
        ("?jobId=a", 1),
        ("?label=team:ops", 1),
        ("?label=team:ops&jobId=b", 0),
        ("?label=team:none", 0),
        ("?jobId=none", 0),
    ):
        shown = (await client.get(f"/statistics{query}")).json()["data"]
        assert (query, shown["total"]["executions"]) == (query, number)
    assert (await client.get("/statistics?jobId=a&from=2025-01-01")).status_code == 200


async def test_a_label_of_too_many_jobs_is_refused(client: httpx.AsyncClient) -> None:
    """Each of their days is read; the message says for how many days there is room."""
    some = [definition(jobId=f"j{number}", labels={"team": "ops"}) for number in range(600)]
    await client.post("/jobs", json=some)
    refused = await client.get("/statistics?label=team:ops&from=2025-10-02&to=2026-01-01")
    assert (refused.status_code, pointers(refused)) == (422, [("/label", "too_many")])
    assert "83 days at most" in refused.json()["detail"]
    assert (await client.get("/statistics?label=team:ops&from=2025-10-11&to=2026-01-01")).status_code == 200


async def test_a_destroyed_job_has_its_statistics(client: httpx.AsyncClient, world: World) -> None:
    """As it has its history; one that never was has none."""
    await ended(client, world, "a")
    await client.delete("/jobs/a")
    shown = (await client.get("/jobs/a/statistics")).json()["data"]
    assert shown["total"]["executions"] == 1
    assert (await client.get("/jobs/none/statistics")).status_code == 404
    assert (await client.get("/jobs/!/statistics")).status_code == 422


async def test_a_history_that_is_behind_is_said(client: httpx.AsyncClient, world: World) -> None:
    """What ended last may be missing: a warning, as in lists."""
    await ended(client, world, "a")
    world.is_history_stuck = True
    for path in ("/statistics", "/jobs/a/statistics"):
        answer = (await client.get(path)).json()
        assert [warning["code"] for warning in answer["warnings"]] == ["history_behind"]
