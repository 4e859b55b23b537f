"""All jobs: lists, many definitions at once, what is upcoming (SPEC sections 3, 10)."""

import asyncio
import json
from typing import Any

import httpx
import msgspec
import pytest

from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.api.world import World, definition, pointers

pytestmark = pytest.mark.anyio
MINUTELY = {"dueTime": "0s", "period": "0 * * * * ?"}
HOURLY = {"dueTime": "0s", "period": "0 0 * * * ?"}


def named(job_id: str, **members: Any) -> dict[str, Any]:
    return {"jobId": job_id, **definition(**members)}


async def test_jobs_are_listed_page_by_page(client: httpx.AsyncClient) -> None:
    """Cursor paging: each job once (SPEC section 10)."""
    for index in range(5):
        await client.post(f"/jobs/j{index}", json=definition())
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/jobs", params=params)).json()["data"]
        seen += [job["jobId"] for job in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == ["j0", "j1", "j2", "j3", "j4"]


async def test_jobs_are_filtered(client: httpx.AsyncClient) -> None:
    """By state, kind (the source's spelling too), label, text (SPEC sections 3, 10)."""
    await client.post("/jobs/alpha", json=definition(labels={"team": "ops"}, objectId="o1"))
    await client.post("/jobs/beta", json=definition(timer={"dueTime": "1h", "period": "5m"}, active=0))
    for query, found in [
        ("state=paused", ["beta"]),
        ("kind=timeing", ["beta"]),
        ("kind=external", ["alpha"]),
        ("label=team:ops", ["alpha"]),
        ("label=team:dev", []),
        ("objectId=o1", ["alpha"]),
        ("text=bet", ["beta"]),
        ("system=true", []),
    ]:
        items = (await client.get(f"/jobs?{query}")).json()["data"]["items"]
        assert [job["jobId"] for job in items] == found


@pytest.mark.parametrize("query", ["limit=501", "cursor=x", "sort=size", "foo=1", "kind=daily"])
async def test_a_filter_that_is_none_is_422(client: httpx.AsyncClient, query: str) -> None:
    """An unknown filter is 422 (SPEC section 10)."""
    response = await client.get(f"/jobs?{query}")
    assert response.status_code == 422
    assert pointers(response)[0][0] == "/" + query.partition("=")[0]


async def test_many_definitions_each_on_its_own(client: httpx.AsyncClient, world: World) -> None:
    """One result per item, in order; the text of each is kept as posted (SPEC section 10)."""
    await client.post("/jobs/old", json=definition())
    await client.post("/jobs/same", json=definition())
    body = [named("new"), named("bad", qos=7), named("old", jobName="x"), named("same"), 5, definition()]
    response = await client.post("/jobs", json=body)
    assert response.status_code == 200
    items = response.json()["data"]["items"]
    assert [item["status"] for item in items] == [
        "created",
        "refused",
        "refused",
        "unchanged",
        "refused",
        "refused",
    ]
    assert items[1]["problem"]["errors"][0]["pointer"] == "/qos"
    assert items[2]["problem"]["status"] == 409
    assert items[4]["jobId"] is None
    assert items[5]["problem"]["errors"][0]["pointer"] == "/jobId"
    updated = await client.post("/jobs?onExisting=update", json=[named("old", jobName="x")])
    assert updated.json()["data"]["items"][0]["status"] == "updated"


async def test_two_definitions_of_one_job_go_in_order(client: httpx.AsyncClient) -> None:
    """In order: the second one of an array meets the first."""
    response = await client.post("/jobs", json=[named("a"), named("a", jobName="b")])
    assert [item["status"] for item in response.json()["data"]["items"]] == ["created", "refused"]


@pytest.mark.parametrize("wrong", [b'{"jobId": "b", ', b'{"jobName": nul}', b'"\xff"', b"1e999", b"[" * 64])
async def test_an_array_that_is_no_json_creates_nothing(
    client: httpx.AsyncClient, world: World, wrong: bytes
) -> None:
    """The whole is read before any of it counts, however well the beginning is known (RFC 8259)."""
    headers = {"content-type": "application/json"}
    known = json.dumps(named("a")).encode()
    await client.post("/jobs", content=b"[%s]" % known, headers=headers)
    again = known.replace(b'"a"', b'"b"', 1)
    ending = b"]" * 65 if wrong.startswith(b"[") else b"]"
    answer = await client.post("/jobs", content=b"[%s, %s%s" % (again, wrong, ending), headers=headers)
    assert answer.status_code in (400, 422)
    assert list(world.documents) == ["a"]


async def test_an_array_has_at_most_a_thousand(client: httpx.AsyncClient) -> None:
    """At most 1,000 definitions; anything but an array is refused (SPEC section 10)."""
    assert (await client.post("/jobs", json=[1] * 1_001)).status_code == 422
    assert (await client.post("/jobs", json=definition())).status_code == 422
    assert (await client.post("/jobs", json=[])).json()["data"] == {"items": []}


async def test_an_array_under_a_key_is_answered_as_before(client: httpx.AsyncClient, world: World) -> None:
    """The same answer again, though the jobs exist now (SPEC section 10)."""
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/jobs", json=[named("a")], headers=headers)
    again = await client.post("/jobs", json=[named("a")], headers=headers)
    assert again.json() == first.json()
    other = await client.post("/jobs", json=[named("b")], headers=headers)
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]
    world.wall += 86_400_001
    assert (await client.post("/jobs", json=[named("b")], headers=headers)).status_code == 200


async def test_a_key_is_for_one_body_also_at_once(client: httpx.AsyncClient) -> None:
    """Of arrays that come together with one key one is created; the same again is told what became of it."""
    headers = {"Idempotency-Key": "k"}
    posts = [client.post("/jobs", json=[named(job)], headers=headers) for job in ("a", "b", "a", "c")]
    answers = await asyncio.gather(*posts)
    created = [answer for answer in answers if answer.status_code == 200]
    assert [answer.json()["data"]["items"][0]["status"] for answer in created] == ["created"] * len(created)
    assert len({answer.content for answer in created}) == 1
    listed = (await client.get("/jobs")).json()["data"]["items"]
    assert len(listed) == 1
    refused = [answer for answer in answers if answer.status_code != 200]
    assert [pointers(answer) for answer in refused] == [[("/Idempotency-Key", "key_reused")]] * len(refused)


async def test_a_refusal_that_passes_is_not_kept_under_a_key(client: httpx.AsyncClient, world: World) -> None:
    """Who repeats the array wants what was away then to be tried again; other bodies stay refused."""
    headers = {"Idempotency-Key": "k"}
    world.fault = StoreUnavailable("away")
    first = await client.post("/jobs", json=[named("a")], headers=headers)
    assert first.json()["data"]["items"][0]["problem"]["status"] == 503
    world.fault = None
    other = await client.post("/jobs", json=[named("b")], headers=headers)
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]
    again = await client.post("/jobs", json=[named("a")], headers=headers)
    assert again.json()["data"]["items"][0]["status"] == "created"


async def test_a_key_outlives_a_crash_within_its_request(client: httpx.AsyncClient, world: World) -> None:
    """It is durable before anything is done: another body is refused, the same one is done to its end."""
    headers = {"Idempotency-Key": "k"}
    await client.post("/jobs", json=[named("a")], headers=headers)
    begun = {key: msgspec.structs.replace(kept, answer=b"") for key, kept in world.store.kept.items()}
    world.store.kept.update(begun)  # as a process leaves it that dies over the array
    other = await client.post("/jobs", json=[named("b")], headers=headers)
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]
    again = await client.post("/jobs", json=[named("a"), named("c")], headers={"Idempotency-Key": "other"})
    assert [item["status"] for item in again.json()["data"]["items"]] == ["unchanged", "created"]
    same = await client.post("/jobs", json=[named("a")], headers=headers)
    assert same.json()["data"]["items"][0]["status"] == "unchanged"


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


async def test_the_ledger_of_a_job_is_listed(client: httpx.AsyncClient) -> None:
    """`GET /jobs/{jobId}/firings` (SPEC section 10)."""
    await client.post("/jobs/a", json=definition(timer=None))
    firings = (await client.get("/jobs/a/firings")).json()["data"]["items"]
    assert [one["outcome"] for one in firings] == ["fired"]
    assert (await client.get("/jobs/none/firings")).status_code == 404


async def test_figures_and_health(client: httpx.AsyncClient, world: World) -> None:
    """`/stats`, `/health/live`, `/health/ready`; 503 names what is missing (SPEC section 14)."""
    assert {"due", "waiting", "running", "byState", "lateness", "perMinute"} <= (
        await client.get("/stats")
    ).json()["data"].keys()
    assert (await client.get("/health/live")).json()["data"]["version"] == "1.2.3"
    assert (await client.get("/health/ready")).status_code == 200
    world.missing = ("store",)
    ready = await client.get("/health/ready")
    assert (ready.status_code, pointers(ready)) == (503, [("", "not_ready")])
    assert (await client.get("/settings")).status_code == 404
