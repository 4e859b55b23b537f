"""Counts of what a list would have, and statistics by day, through the API (SPEC section 10)."""

from collections import Counter
from datetime import datetime
from typing import Any

import httpx
import pytest

from scheduler_service.api.statistics import MOST_READ, MOST_STEPS, most_read
from scheduler_service.domain.moments import DAY, HOUR, MINUTE, rfc3339
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers, start


async def test_jobs_are_counted(client: httpx.AsyncClient, world: World) -> None:
    """With the filters of the list; each word has its number, also where that is 0."""
    await client.post("/jobs/idle", json=definition(labels={"team": "ops"}))
    await start(client, "busy", labels={"team": "ops"})
    await world.answer_calls()
    await client.post("/jobs/off", json=definition(active=0))
    counted = (await client.get("/counts/jobs")).json()["data"]
    assert counted["total"] == {"value": 3, "isCapped": False}
    assert counted["byState"] == {"active": 2, "paused": 1, "finished": 0, "destroyed": 0}
    assert counted["byKind"] == {"one_time": 0, "timing": 0, "cron": 0, "external": 3}
    outcomes = ("succeeded", "terminated", "cancelled", "skipped", "running", "waiting", "none")
    assert tuple(counted["byLastOutcome"]) == outcomes
    assert [counted["byLastOutcome"][one] for one in ("succeeded", "none")] == [1, 2]
    for query, number in (("label=team:ops", 2), ("state=paused", 1), ("lastOutcome=succeeded", 1)):
        assert (await client.get(f"/counts/jobs?{query}")).json()["data"]["total"]["value"] == number


async def test_executions_are_counted(client: httpx.AsyncClient, world: World) -> None:
    """With the filters of the list."""
    for name, team in (("a", "ops"), ("b", "web")):
        await start(client, name, labels={"team": team})
    for query, number in (("", 2), ("jobId=a", 1), ("label=team:web", 1), ("label=team:no", 0)):
        counted = (await client.get(f"/counts/executions?{query}")).json()["data"]
        assert (counted["total"]["value"], counted["byState"]["processing"]) == (number, number)
    for query, pointer in (("limit=5", "/limit"), ("state=done", "/state"), ("from=now", "/from")):
        refused = await client.get(f"/counts/executions?{query}")
        assert (refused.status_code, pointers(refused)[0][0]) == (422, pointer)


async def test_notifications_are_counted(client: httpx.AsyncClient) -> None:
    """With the filters of the list; another one is refused."""
    counted = (await client.get("/counts/deliveries?state=outbox&event=finalFailed&jobId=a")).json()["data"]
    assert counted["total"] == {"value": 0, "isCapped": False}
    assert set(counted["byState"].values()) == {0}
    for query, pointer in (("state=terminated", "/state"), ("limit=1", "/limit"), ("jobId=", "/jobId")):
        refused = await client.get(f"/counts/deliveries?{query}")
        assert (refused.status_code, pointers(refused)[0][0]) == (422, pointer)


async def test_without_parts_nothing_waits(client: httpx.AsyncClient) -> None:
    """Where no queue has any."""
    counted = (await client.get("/counts/queues")).json()["data"]
    nothing = {"queues": {"value": 0, "isCapped": False}, "waiting": 0, "held": 0, "oldestAt": None}
    assert counted == nothing


@pytest.mark.parametrize(
    ("query", "first", "last", "minutes"),
    [
        ("", START - DAY, START, 15),
        ("buckets=24", START - DAY, START, 60),
        ("buckets=1", START - DAY, START, 1_440),
        ("buckets=199", START - DAY, START, 10),
        ("buckets=200", START - DAY, START, 10),
        (
            "from=2025-12-31T07:19:00Z&to=2025-12-31T23:59:00Z&buckets=200",
            START - 16 * HOUR - 41 * MINUTE,
            START - MINUTE,
            10,
        ),
        (
            "from=2025-12-31T07:20:00Z&to=2026-01-01T00:00:00Z&buckets=199",
            START - 16 * HOUR - 40 * MINUTE,
            START,
            10,
        ),
        ("bucketSeconds=3600", START - DAY, START, 60),
        ("from=2025-12-31T23:07:00Z&bucketSeconds=600", START - HOUR, START, 10),
        ("from=2025-12-31T22:00:00Z&to=2025-12-31T23:00:00Z&buckets=61", START - 2 * HOUR, START - HOUR, 5),
        ("from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", START, START, 5),
        ("from=2025-12-24T00:00:00Z&buckets=5", START - 8 * DAY, START, 2 * 1_440),
        ("from=2026-01-01T01:00:00Z", START + HOUR, START + HOUR, 5),
    ],
)
async def test_the_span_and_the_width_are_chosen(
    client: httpx.AsyncClient, world: World, query: str, first: int, last: int, minutes: int
) -> None:
    """A day up to now by default; buckets begin at multiples of their width, the first not after `from`."""
    answer = (await client.get(f"/series/executions?{query}")).json()["data"]
    assert (answer["to"], answer["bucketSeconds"]) == (rfc3339(last), minutes * 60)
    asked = world.history.asked
    assert asked is not None
    assert (asked.last, asked.width) == (last, minutes * MINUTE)
    assert asked.first % asked.width == 0
    assert first - asked.width < asked.first <= max(first, asked.first)
    assert (last - asked.first) // asked.width < 200
    assert answer["from"] == rfc3339(asked.first)


async def test_the_remedy_of_too_narrow_buckets_works(client: httpx.AsyncClient) -> None:
    """The width that the message names is accepted."""
    refused = await client.get("/series/executions?bucketSeconds=300")
    least = refused.json()["detail"].rpartition("bucketSeconds of ")[2].split()[0]
    assert (await client.get(f"/series/executions?bucketSeconds={least}")).status_code == 200


async def test_filters_reach_the_history(client: httpx.AsyncClient, world: World) -> None:
    """Those of the list, the job by its key."""
    await start(client, "a", labels={"team": "ops"})
    await client.get("/series/executions?jobId=a&outcome=failed&label=team:ops&triggeredBy=manual&error=500")
    asked = world.history.asked
    assert asked is not None
    wanted = asked.executions
    assert (wanted.job_id, wanted.job_ids, wanted.error) == ("a", frozenset({"a"}), "500")
    assert (wanted.state, wanted.triggered_by) == ("terminated", "manual")


TIMERS = [
    {"dueTime": "30s", "period": "90s"},
    {"dueTime": "5m", "period": "1h"},
    {"period": "0 0/7 * * * ?"},
    {"dueTime": "40m", "period": ""},
    {"period": "external"},
]


async def count(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    """`data` of counts."""
    answer = await client.get("/counts/upcoming", params=query)
    assert answer.is_success, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def test_the_counts_are_those_of_the_list(client: httpx.AsyncClient, world: World) -> None:
    """Minute by minute, and in wider buckets; from now or another moment on."""
    for number, timer in enumerate(TIMERS):
        assert (await client.post(f"/jobs/j{number}", json=definition(timer=timer))).is_success
    data = await count(client)
    until = datetime.fromisoformat(data["to"]).timestamp() * 1_000
    items = (await client.get("/upcoming", params={"limit": 500})).json()["data"]["items"]
    moments = [round(datetime.fromisoformat(one["plannedAt"]).timestamp() * 1_000) for one in items]
    begin = world.wall - world.wall % MINUTE
    listed = Counter((moment - begin) // MINUTE for moment in moments if moment < until)
    assert data["counts"] == [listed[minute] for minute in range(60)]
    assert data["total"] == {"value": sum(listed.values()), "isCapped": False}
    hours = await count(client, bucketSeconds=3_600, buckets=2)
    assert hours["counts"][0] == data["total"]["value"]
    later = await count(client, **{"from": data["to"], "bucketSeconds": 3_600, "buckets": 1})
    assert later["counts"] == hours["counts"][1:]


async def test_of_many_jobs_the_next_firing_is_counted(client: httpx.AsyncClient) -> None:
    """And the answer says so."""
    timer = {"dueTime": "1m", "period": "1m"}
    body = [{"jobId": f"j{n}", **definition(timer=timer)} for n in range(MOST_READ + 3)]
    await client.post("/jobs", json=body)
    data = await count(client, buckets=3)
    assert data["counts"] == [0, MOST_READ + 3, MOST_READ]
    assert data["total"]["isCapped"]


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "2199-12-31T23:59:59Z"])
async def test_buckets_after_the_end_of_timers_are_refused(client: httpx.AsyncClient, moment: str) -> None:
    """Also where only the last one is; the last moment of all is still counted."""
    refused = await client.get(f"/counts/upcoming?from={moment}&buckets=2")
    assert (refused.status_code, pointers(refused)) == (422, [("/from", "range")])
    answer = await client.get("/counts/upcoming?from=2199-12-31T23:59:59Z&buckets=1")
    assert answer.json()["data"]["to"] == "2200-01-01T00:00:00.000Z"


@each_row(
    ("count", "width", "jobs"),
    [(60, MINUTE, MOST_READ), (24, HOUR, MOST_READ), (7 * 24, HOUR, 148), (366, DAY, 5), (1_000, DAY, 2)],
)
def test_the_work_for_one_question_is_bounded(count: int, width: int, jobs: int) -> None:
    """The longer the time, the fewer jobs: of 200 three years are 5,000,000 hours."""
    assert most_read(count, width) == jobs
    assert jobs == 1 or jobs * (count + count * width // HOUR) <= MOST_STEPS


async def test_of_a_long_time_only_the_next_firing_of_most_jobs_is_counted(client: httpx.AsyncClient) -> None:
    """And the answer says so."""
    body = [{"jobId": f"j{n}", **definition(timer={"period": "0 0 0 * * ?"})} for n in range(9)]
    await client.post("/jobs", json=body)
    data = await count(client, bucketSeconds=86_400, buckets=366)
    assert data["total"]["isCapped"]
    assert data["total"]["value"] == 5 * data["counts"][2:].count(5) + sum(data["counts"][:2])
    assert max(data["counts"]) == 9


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
