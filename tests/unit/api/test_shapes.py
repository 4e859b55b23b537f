"""The timers of a list in words (SPEC section 10, GET /jobs)."""

import httpx

from scheduler_service.ports.catalogue import LONGEST_READ
from tests.unit.api.world import definition


async def test_a_list_tells_its_timers(client: httpx.AsyncClient) -> None:
    """Where it is asked for: kind, period as posted, zone and words; null where the definition is long."""
    cron = {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"}
    await client.post("/jobs/nightly", json=definition(timer=cron))
    await client.post("/jobs/once", json=definition(timer={"dueTime": "1h"}))
    await client.post("/jobs/poll", json=definition(timer={"period": "5s"}))
    await client.post("/jobs/waits", json=definition(timer={}))
    await client.post("/jobs/long", json=definition(jobDescription="x" * LONGEST_READ))
    items = (await client.get("/jobs?timers=true")).json()["data"]["items"]
    found = {item["jobId"]: item["timer"] for item in items}
    assert found["nightly"] == {
        "kind": "cron",
        "period": "0 30 2 * * ?",
        "timezone": "Europe/Berlin",
        "description": "At 02:30 every day, Europe/Berlin time",
    }
    assert found["poll"]["description"].startswith("Every 5 seconds")
    assert found["long"] is None
    chinese = (await client.get("/jobs?timers=true", headers={"Accept-Language": "zh-CN"})).json()["data"]
    (nightly,) = (item for item in chinese["items"] if item["jobId"] == "nightly")
    assert nightly["timer"]["description"] == "每天 02:30（Europe/Berlin 时间）"
    kinds = {item["jobId"]: item["kind"] for item in items}
    assert {name: timer["kind"] for name, timer in found.items() if timer} == {
        name: kind for name, kind in kinds.items() if name != "long"
    }
    whole = (await client.get("/jobs?definitions=true")).json()["data"]["items"]
    known = {item["jobId"]: item["definition"] for item in whole}
    assert (known["nightly"]["timer"], known["long"]) == (cron, None)
    assert all("timer" not in item for item in (await client.get("/jobs")).json()["data"]["items"])


async def test_a_page_ends_early_where_its_definitions_are_large(client: httpx.AsyncClient) -> None:
    """At 4 MiB; the cursor goes on with the next job, in any order, and none is left out."""
    texts = "x" * (LONGEST_READ - 500)
    for number in range(70):
        await client.post(f"/jobs/j{number:02}", json=definition(jobDescription=texts))
    for sort in ("jobId", "-createdAt"):
        sizes, seen = await _page_through(client, {"limit": 500, "definitions": "true", "sort": sort})
        assert sorted(seen) == [f"j{number:02}" for number in range(70)]
        assert [size > 60 for size in sizes] == [True, False]


async def test_a_page_ends_early_where_its_labels_are_large(client: httpx.AsyncClient) -> None:
    """Also of a list without definitions; a line that is larger than a page is the only one of its page."""
    labels = {f"k{number}": "x" * 1_000 for number in range(900)}
    for number in range(6):
        assert (await client.post(f"/jobs/j{number}", json=definition(labels=labels))).status_code == 201
    sizes, seen = await _page_through(client, {"limit": 500})
    assert seen == [f"j{number}" for number in range(6)]
    assert sizes == [4, 2]


async def _page_through(
    client: httpx.AsyncClient, asked: dict[str, str | int]
) -> tuple[list[int], list[str]]:
    """The number of items on each page, and the ids of all."""
    sizes: list[int] = []
    seen: list[str] = []
    cursor = None
    while cursor is not None or not sizes:
        more = {} if cursor is None else {"cursor": cursor}
        answer = await client.get("/jobs", params={**asked, **more})
        assert len(answer.content) < (4 << 20) + 1_000
        assert answer.status_code == 200, answer.text[:300]
        page = answer.json()["data"]
        sizes.append(len(page["items"]))
        seen += [item["jobId"] for item in page["items"]]
        cursor = page["nextCursor"]
    return sizes, seen
