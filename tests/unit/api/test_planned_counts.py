"""Planned firings by buckets of time (SPEC section 10)."""

from collections import Counter
from datetime import datetime
from typing import Any

import httpx
import pytest

from scheduler_service.api.planned_counts import MOST_READ, MOST_STEPS, most_read
from scheduler_service.domain.moments import DAY, HOUR, MINUTE
from tests.unit.api.world import World, definition, pointers

pytestmark = pytest.mark.anyio
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


async def test_a_wrong_question_is_refused(client: httpx.AsyncClient) -> None:
    """With its place."""
    for name, value in (("buckets", 1_001), ("bucketSeconds", 59), ("from", "soon")):
        refused = await client.get("/counts/upcoming", params={name: value})
        assert refused.status_code == 422
        assert pointers(refused)[0][0] == f"/{name}"


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "2199-12-31T23:59:59Z"])
async def test_buckets_after_the_end_of_timers_are_refused(client: httpx.AsyncClient, moment: str) -> None:
    """Also where only the last one is; the last moment of all is still counted."""
    refused = await client.get(f"/counts/upcoming?from={moment}&buckets=2")
    assert (refused.status_code, pointers(refused)) == (422, [("/from", "range")])
    answer = await client.get("/counts/upcoming?from=2199-12-31T23:59:59Z&buckets=1")
    assert answer.json()["data"]["to"] == "2200-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
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
