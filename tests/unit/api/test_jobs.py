"""Jobs over the wire: create, read, list, update, pause, destroy; pages, timers (SPEC section 10)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import create_api
from scheduler_service.api.authentication import Authentication
from scheduler_service.domain.effects import Call
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.ports.catalogue import LONGEST_READ
from scheduler_service.ports.delivery import Definition
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import KEY, World, definition, pointers


async def test_a_job_is_created_and_shown(client: httpx.AsyncClient) -> None:
    """POST answers 201 with the job; GET shows the same, definition as posted (SPEC section 10)."""
    created = await client.post("/jobs/j1", json=definition(objectId="o", labels={"team": "ops"}))
    assert created.status_code == 201
    body = created.json()
    assert (body["resp_code"], body["resp_msg"], body["warnings"]) == (200, None, [])
    job = body["data"]
    assert job["jobId"] == "j1"
    assert job["state"] == "active"
    assert job["kind"] == "external"
    assert job["objectId"] == "o"
    assert job["revision"] == 1
    assert job["latestExecution"] is None
    assert job["createdAt"] == "2026-01-01T00:00:00.000Z"
    assert job["definition"] == {**definition(objectId="o", labels={"team": "ops"}), "jobId": "j1"}
    assert created.headers["location"] == "/jobs/j1"
    read = await client.get("/jobs/j1")
    assert read.status_code == 200
    assert read.headers["etag"] == '"1"'
    assert read.json()["data"] == job


def unsigned(**members: Any) -> dict[str, Any]:
    """A definition that does not say who created it."""
    return {
        "jobName": "a job",
        "timer": {"period": "external"},
        "request": [{"url": "http://t.test/"}],
    } | members


@asynccontextmanager
async def another_user(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """The same service, run by somebody else."""
    ring = world.deps.security.authentication.ring
    bob = Authentication(admin_key=None, tenant="default", user="bob", now=world.now, ring=ring)
    security = replace(world.deps.security, authentication=bob)
    world.api = create_api(replace(world.deps, security=security))
    async with world.client() as client:
        yield client


async def test_the_caller_is_the_creator_of_what_names_none(client: httpx.AsyncClient) -> None:
    """Without keys that is the machine's user; what is given stays (SPEC section 2)."""
    both = (await client.post("/jobs/j1", json=unsigned())).json()["data"]
    assert both["definition"] == unsigned() | {"jobId": "j1", "creator": "alice", "creatorName": "alice"}
    one = (await client.post("/jobs/j2", json=unsigned(creator="7", creatorName=None))).json()["data"]
    assert (one["definition"]["creator"], one["definition"]["creatorName"]) == ("7", "alice")
    array = [unsigned(jobId="j3")]
    assert (await client.post("/jobs", json=array)).json()["data"]["items"][0]["status"] == "created"
    found = (await client.get("/jobs?creator=alice")).json()["data"]["items"]
    assert [job["jobId"] for job in found] == ["j1", "j3"]


async def test_who_sends_a_definition_makes_no_difference(client: httpx.AsyncClient, world: World) -> None:
    """The same body of another caller is the same definition, and its job keeps its creator."""
    assert (await client.post("/jobs/j1", json=unsigned())).status_code == 201
    array = [unsigned(jobId="j1")]
    async with another_user(world) as bob:
        again = await bob.post("/jobs/j1", json=unsigned())
        assert (again.status_code, again.json()["data"]["revision"]) == (200, 1)
        for query in ("", "?onExisting=update"):
            items = (await bob.post(f"/jobs{query}", json=array)).json()["data"]["items"]
            assert [item["status"] for item in items] == ["unchanged"], items
        assert (await bob.post("/jobs/j1", json=unsigned(creator="bob"))).status_code == 409
        assert (await bob.post("/jobs/j1", json=unsigned(jobName="other"))).status_code == 409
        renamed = [unsigned(jobId="j1", jobName="other")]
        items = (await bob.post("/jobs?onExisting=update", json=renamed)).json()["data"]["items"]
        assert items[0]["status"] == "updated"
        updated = (await bob.post("/jobs/j1/update", json=unsigned(jobName="third"))).json()["data"]
        assert (updated["revision"], updated["creator"]) == (3, "alice")
        own = (await bob.post("/jobs/j1/update", json=unsigned(creator="bob"))).json()["data"]
        assert own["creator"] == "bob"


async def test_options_name_their_source(client: httpx.AsyncClient) -> None:
    """Each option has its effective value and where it comes from (SPEC section 13)."""
    await client.post("/jobs/j1", json=definition(timeoutSeconds=5))
    options = (await client.get("/jobs/j1")).json()["data"]["options"]
    assert options["timeoutSeconds"] == {"value": 5, "source": "job"}
    assert options["maxRetries"] == {"value": 5, "source": "product"}


@each_row(
    ("active", "before", "warned"),
    [(0, 1, True), (1, 0, True), (1, 1, False), (0, 0, False), (None, 0, False)],
)
async def test_a_creation_leaves_a_job_that_is_there_as_it_is(
    active: int | None, before: int, warned: bool
) -> None:
    """Definitions are compared without `active`, and the answer says where it is not followed."""
    async with World().client() as client:
        await client.post("/jobs/j1", json=definition(active=before))
        again = await client.post(
            "/jobs/j1", json=definition(**({} if active is None else {"active": active}))
        )
        assert (again.status_code, again.json()["data"]["state"]) == (200, "active" if before else "paused")
        assert [one["code"] for one in again.json()["warnings"]] == ["active_ignored"] * warned


async def test_the_same_definition_again_is_200_another_409(client: httpx.AsyncClient) -> None:
    """Same id and same definition: 200; same id, other definition: 409 (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    again = await client.post("/jobs/j1", json=definition(jobId="j1", active=1, maxRetries=5))
    assert again.status_code == 200
    other = await client.post("/jobs/j1", json=definition(jobName="other"))
    assert other.status_code == 409
    assert pointers(other) == [("/jobId", "conflict")]


@pytest.mark.parametrize("length", [1, 40_000])
async def test_what_was_accepted_before_is_unchanged(
    client: httpx.AsyncClient, world: World, length: int
) -> None:
    """A name that is refused by now stays that of its job (SPEC section 2); a change names another one."""
    old = definition(jobId="j1", jobName="a\tjob", jobDescription="x" * length)
    text = json.dumps(old).encode()
    await world.create_all(
        [Definition(text, await world.deps.definitions.compiler.stored(text, "default"))], ""
    )
    unnamed = {name: value for name, value in old.items() if not name.startswith("creator")}
    for sent in (old, unnamed):
        same = await client.post("/jobs/j1", json=sent)
        assert (same.status_code, [one["code"] for one in same.json()["warnings"]]) == (200, ["control"])
        (one,) = (await client.post("/jobs", json=[sent])).json()["data"]["items"]
        assert one["status"] == "unchanged"
    for other in ({"jobId": "j2"}, {"maxRetries": 1}, {"jobName": "b\tjob"}):
        changed = old | other
        refused = await client.post(f"/jobs/{changed['jobId']}", json=changed)
        assert (refused.status_code, pointers(refused)) == (422, [("/jobName", "control")])


async def test_what_is_wrong_in_a_text_is_wrong_with_the_text(client: httpx.AsyncClient) -> None:
    """A pointer leads to a member that was posted, also where a text holds the object (SPEC section 4)."""
    texts = ("system://clean", "", "http://t.test:0/", "${", "service://{foo}/x")
    for members in (*({"checkUrl": text} for text in texts), {"timer": '{"perod": "5m"}'}):
        wrong = await client.post("/jobs/j1", json=definition(**members))
        assert wrong.status_code == 422
        assert [pointer for pointer, _ in pointers(wrong)] == [f"/{name}" for name in members]
    warned = await client.post("/jobs/j1", json=definition(timer='{"dueTime": "5s", "period": "external"}'))
    assert [warning["pointer"] for warning in warned.json()["warnings"]] == ["/timer"]


async def test_warnings_are_beside_the_data(client: httpx.AsyncClient) -> None:
    """A dropped dueTime and a moment in the past are warned of (SPEC section 3)."""
    dropped = await client.post("/jobs/a", json=definition(timer={"dueTime": "5s", "period": ""}))
    assert [warning["code"] for warning in dropped.json()["warnings"]] == ["due_time_ignored"]
    past = await client.post(
        "/jobs/b", json=definition(timer={"dueTime": "2020-01-01 00:00:00", "period": "0s"})
    )
    assert [(one["code"], one["pointer"]) for one in past.json()["warnings"]] == [("in_the_past", "/timer")]
    assert past.json()["data"]["state"] == "finished"


async def test_update_replaces_and_counts_revisions(client: httpx.AsyncClient) -> None:
    """`/update` replaces the definition; the ETag follows; 404 if absent (SPEC section 10)."""
    assert (await client.post("/jobs/j1/update", json=definition())).status_code == 404
    await client.post("/jobs/j1", json=definition())
    updated = await client.post("/jobs/j1/update", json=definition(jobName="other"))
    assert updated.status_code == 200
    assert updated.headers["etag"] == '"2"'
    assert updated.json()["data"]["definition"]["jobName"] == "other"
    revisions = (await client.get("/jobs/j1/revisions", params={"limit": 1})).json()["data"]
    assert [one["revision"] for one in revisions["items"]] == [1]
    rest = await client.get("/jobs/j1/revisions", params={"cursor": revisions["nextCursor"]})
    assert [one["definition"]["jobName"] for one in rest.json()["data"]["items"]] == ["other"]


async def test_a_page_of_revisions_ends_early_where_they_are_large(client: httpx.AsyncClient) -> None:
    """At 4 MiB of definitions; the cursor goes on with the next one, and none is left out."""
    await client.post("/jobs/j1", json=definition())
    for number in range(9):
        await client.post("/jobs/j1/update", json=definition(jobDescription=f"{number}" + "x" * 700_000))
    sizes, seen, cursor = [], [], None
    while True:
        asked = {} if cursor is None else {"cursor": cursor}
        page = (await client.get("/jobs/j1/revisions", params=asked)).json()["data"]
        sizes.append(len(page["items"]))
        seen += [one["revision"] for one in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == list(range(1, 11))
    assert sizes == [6, 4]


@pytest.mark.parametrize(
    ("tag", "status"),
    [
        ('"1"', 200),
        ("*", 200),
        ('"7", "1"', 200),
        (' "1" ,W/"2",', 200),
        ('"7"', 412),
        ('"7", "8"', 412),
        ('W/"1"', 412),
        ("1", 412),
        ("x", 412),
        ('"1"x', 412),
        ('"01"', 412),
        ("", 412),
    ],
)
async def test_if_match_guards_an_update(client: httpx.AsyncClient, tag: str, status: int) -> None:
    """412 where no tag of `If-Match` is the revision in quotes (SPEC section 10; RFC 9110, 13.1.1)."""
    await client.post("/jobs/j1", json=definition())
    response = await client.post("/jobs/j1/update", json=definition(jobName="b"), headers={"If-Match": tag})
    assert response.status_code == status
    if status == 412:
        assert pointers(response) == [("/If-Match", "precondition")]
        assert 'revision "1", which is not among the quoted tags' in response.json()["detail"]


async def test_if_match_guards_each_command_on_a_job(client: httpx.AsyncClient) -> None:
    """A stale one is 412 and changes nothing; a job that is there already is no way around it."""
    timer = {"dueTime": "0s", "period": "0 * * * * ?"}
    await client.post("/jobs/j1", json=definition(timer=timer))
    before = (await client.post("/jobs/j1/update", json=definition(timer=timer, jobName="b"))).json()["data"]
    commands = [
        ("PUT", f"/jobs/j1?{one}") for one in ("active=0", "active=1", "disabled=true", "disabled=false")
    ]
    for method, path in [*commands, ("DELETE", "/jobs/j1"), ("DELETE", "/job/j1")]:
        stale = await client.request(method, path, headers={"If-Match": '"1"'})
        assert (stale.status_code, pointers(stale)) == (412, [("/If-Match", "precondition")]), path
    assert (await client.get("/jobs/j1")).json()["data"] == before
    for method, path in [*commands, ("DELETE", "/jobs/j1")]:
        tag = (await client.get("/jobs/j1")).headers["etag"]
        fresh = await client.request(method, path, headers={"If-Match": tag})
        assert fresh.status_code == 200, path
    assert (await client.get("/jobs/j1")).status_code == 404


async def test_a_job_is_paused_and_started_again(client: httpx.AsyncClient) -> None:
    """PUT with 0 and 1, in the query or the body; `missed` counts the pause (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition(timer={"dueTime": "0s", "period": "0 * * * * ?"}))
    paused = await client.put("/jobs/j1?active=0")
    assert paused.json()["data"]["state"] == "paused"
    assert paused.json()["data"]["nextFireTime"] is None
    assert paused.json()["data"]["pauseReason"] == "paused"
    assert (await client.get("/jobs/j1")).json()["data"]["pauseReason"] == "paused"
    started = await client.put("/jobs/j1", json={"active": True})
    assert started.json()["data"]["state"] == "active"
    assert (started.json()["data"]["missed"], started.json()["data"]["pauseReason"]) == (0, None)
    again = await client.put("/jobs/j1?active=1")
    assert again.status_code == 200
    assert "missed" not in again.json()["data"]


async def test_a_job_is_disabled_and_enabled(client: httpx.AsyncClient) -> None:
    """In the definition, in the query or a body of PUT; the schedule and all else stay (SPEC section 2)."""
    timer = {"dueTime": "0s", "period": "0 * * * * ?"}
    created = (await client.post("/jobs/j1", json=definition(timer=timer))).json()["data"]
    assert created["disabled"] is False
    answer = (await client.put("/jobs/j1?disabled=true")).json()["data"]
    assert (answer["disabled"], answer["state"], answer["nextFireTime"]) == (True, "active", None)
    assert answer["definition"] == created["definition"] | {"disabled": True}
    assert (await client.get("/jobs/j1/next")).json()["data"]["firings"] == []
    for body in ("/jobs/j1/trigger", "/jobs/j1/trigger?delaySeconds=60"):
        refused = await client.post(body, json={})
        assert (refused.status_code, pointers(refused)) == (409, [("/jobId", "disabled")])
    again = (await client.put("/jobs/j1", json={"disabled": 1})).json()["data"]
    assert (again["revision"], answer["revision"]) == (2, 2)
    lines = (await client.get("/jobs?timers=true")).json()["data"]["items"]
    assert [line["disabled"] for line in lines] == [True]
    edited = answer["definition"] | {"jobName": "other"}
    assert (await client.post("/jobs/j1/update", json=edited)).json()["data"]["disabled"] is True
    back = (await client.put("/jobs/j1", json={"disabled": False})).json()["data"]
    assert (back["disabled"], back["nextFireTime"]) == (False, created["nextFireTime"])
    assert (await client.post("/jobs/j1/trigger", json={})).is_success
    other = await client.post("/jobs/j1", json=back["definition"] | {"disabled": True})
    assert (other.status_code, pointers(other)) == (409, [("/jobId", "conflict")])


async def test_a_switch_that_was_overtaken_is_made_again(client: httpx.AsyncClient, world: World) -> None:
    """What another one changed meanwhile stays."""
    await client.post("/jobs/j1", json=definition())
    read, renamed = world.deps.store.definition, definition(jobName="other")

    async def overtaken(uid: str, revision: int) -> bytes | None:
        text = await read(uid, revision)
        if revision == 1:
            assert (await client.post("/jobs/j1/update", json=renamed)).is_success
        return text

    world.api = create_api(replace(world.deps, store=SimpleNamespace(definition=overtaken)))
    async with world.client() as late:
        answer = (await late.put("/jobs/j1?disabled=true")).json()["data"]
    assert (answer["revision"], answer["jobName"], answer["disabled"]) == (3, "other", True)


@pytest.mark.parametrize("path", ["/jobs/j1", "/job/j1"])
async def test_a_destroyed_job_is_gone(client: httpx.AsyncClient, path: str) -> None:
    """Afterwards GET and a second DELETE: 404; created again it has a new uid (SPEC section 10)."""
    first = (await client.post("/jobs/j1", json=definition())).json()["data"]
    assert (await client.delete(path)).status_code == 200
    assert (await client.get("/jobs/j1")).status_code == 404
    assert (await client.delete(path)).status_code == 404
    again = await client.post("/jobs/j1", json=definition())
    assert again.status_code == 201
    assert again.json()["data"]["uid"] != first["uid"]


async def test_creation_under_a_key_is_done_once(client: httpx.AsyncClient, world: World) -> None:
    """Same key, same body: the same answer; same key, other body: 422 (SPEC section 10)."""
    headers = {"Idempotency-Key": "k1"}
    assert (await client.post("/jobs/j1", json=definition(), headers=headers)).status_code == 201
    turns = world.turns
    assert (await client.post("/jobs/j1", json=definition(), headers=headers)).status_code == 201
    assert world.turns == turns
    other = await client.post("/jobs/j1", json=definition(jobName="b"), headers=headers)
    assert other.status_code == 422
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]
    # An update too; what was done since stays, and the job is shown as it is now
    update: Any = {
        "url": "/jobs/j1/update",
        "json": definition(jobName="first"),
        "headers": {"Idempotency-Key": "k2"},
    }
    await client.post(**update)
    await client.post("/jobs/j1/update", json=definition(jobName="second"))
    again = (await client.post(**update)).json()["data"]
    assert (again["revision"], again["definition"]["jobName"]) == (3, "second")
    # A refusal is not kept: put right, the key is free
    headers = {"Idempotency-Key": "k1"}
    assert (await client.post("/jobs/j1", json=definition(qos=9), headers=headers)).status_code == 422
    assert (await client.post("/jobs/j1", json=definition(), headers=headers)).status_code == 201


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
        ("lastOutcome=none", ["alpha", "beta"]),
        ("lastOutcome=running", []),
        ("system=true", []),
    ]:
        items = (await client.get(f"/jobs?{query}")).json()["data"]["items"]
        assert [job["jobId"] for job in items] == found


async def test_a_cursor_of_another_list_is_refused(client: httpx.AsyncClient) -> None:
    """Of another list, another job, or other filters: 422 (SPEC section 10)."""
    for name in ("j1", "j2"):
        await client.post(f"/jobs/{name}", json=definition())
        await client.post(f"/jobs/{name}/update", json=definition(jobName="other"))
    jobs = (await client.get("/jobs?limit=1")).json()["data"]["nextCursor"]
    revisions = (await client.get("/jobs/j1/revisions?limit=1")).json()["data"]["nextCursor"]
    assert (await client.get(f"/jobs?cursor={jobs}&timers=true")).status_code == 200
    assert (await client.get(f"/jobs/j1/revisions?cursor={revisions}")).status_code == 200
    for path in (
        f"/jobs?kind=cron&cursor={jobs}",
        f"/jobs?cursor={revisions}",
        f"/jobs/j1/revisions?cursor={jobs}",
        f"/jobs/j2/revisions?cursor={revisions}",
        f"/upcoming?cursor={jobs}",
        f"/services?cursor={jobs}",
    ):
        refused = await client.get(path)
        assert (refused.status_code, pointers(refused)) == (422, [("/cursor", "invalid")]), path


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


async def test_all_that_is_wrong_is_told_at_once(client: httpx.AsyncClient) -> None:
    """What a member may hold, and what its texts say."""
    posted = definition(maxRetries=-1, request=[{"url": "http://a.test/", "body": "${"}])
    response = await client.post("/jobs/j1", json=posted)
    assert pointers(response) == [("/maxRetries", "range"), ("/request/0/body", "invalid")]


async def test_a_creator_that_is_null_is_shown_once(client: httpx.AsyncClient) -> None:
    """What an answer shows can be posted again as it is: no name is twice in it."""
    await client.post("/jobs/j1", json=definition(creator=None, jobId=None))
    await client.post("/jobs", json=[definition(creator=None, jobId="j2")])
    for job_id in ("j1", "j2"):
        text = (await client.get(f"/jobs/{job_id}/revisions")).text
        assert (text.count('"creator":'), text.count('"jobId":')) == (1, 1)
        assert '"creator":"alice"' in text


async def test_a_trigger_starts_an_execution(client: httpx.AsyncClient, world: World) -> None:
    """The answer names the execution; its parameters reach the target (SPEC sections 4, 10)."""
    await client.post("/jobs/j1", json=definition(request=[{"url": "http://t.test/${day}"}]))
    response = await client.post("/jobs/j1/trigger", json={"day": "mon"})
    assert response.status_code == 200
    data = response.json()["data"]
    assert data["executeNumber"] == 1
    assert data["state"] == "processing"
    assert response.headers["location"] == f"/executions/{data['executionId']}"
    call = next(effect for effect in world.effects if isinstance(effect, Call))
    assert call.request.url == "http://t.test/mon"
    # The body is a map of parameters, and may be left out
    await client.post("/jobs/j1", json=definition())
    assert (await client.post("/jobs/j1/trigger")).status_code == 200


async def test_an_overlapping_trigger_is_skipped_with_200(client: httpx.AsyncClient) -> None:
    """It follows overlapPolicy, and answers 200 also when it is skipped (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    await client.post("/jobs/j1/trigger")
    second = await client.post("/jobs/j1/trigger")
    assert (second.status_code, second.json()["data"]["state"]) == (200, "skipped")


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ({"delaySeconds": "1.5"}, START + 1_500),
        ({"at": "2026-01-01T08:00:00+08:00"}, START),
        ({"at": "2026-01-01 01:00:00"}, START + 3_600_000),
    ],
)
async def test_a_trigger_may_wait(
    client: httpx.AsyncClient, world: World, query: dict[str, str], at: int
) -> None:
    """`delaySeconds` or `at` as query: later (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    data = (await client.post("/jobs/j1/trigger", params=query)).json()["data"]
    _, run = world.history.runs[data["executionId"].rpartition("-")[0], data["executeNumber"]]
    assert run.planned_at == at


async def test_a_known_key_returns_its_execution(client: httpx.AsyncClient, world: World) -> None:
    """With a known Idempotency-Key it returns that execution, for a day (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition(overlapPolicy="allow"))
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/jobs/j1/trigger", json={"a": 1}, headers=headers)
    again = await client.post("/jobs/j1/trigger", json={"a": 1}, headers=headers)
    assert again.json()["data"] == first.json()["data"]
    other = await client.post("/jobs/j1/trigger", json={"a": 2}, headers=headers)
    assert (other.status_code, pointers(other)) == (422, [("/Idempotency-Key", "key_reused")])


async def test_a_known_key_shows_its_execution_as_it_is_now(client: httpx.AsyncClient, world: World) -> None:
    """Not in the state of then, be it running, the newest or an older one (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition(overlapPolicy="queue"))
    await client.post("/jobs/j1/trigger")

    async def ask() -> dict[str, Any]:
        answer = await client.post("/jobs/j1/trigger", headers={"Idempotency-Key": "k"})
        data: dict[str, Any] = answer.json()["data"]
        return data

    assert (await ask())["state"] == "enqueued"
    uid = (await ask())["executionId"].rpartition("-")[0]
    await client.post(f"/executions/{uid}-1/cancel")
    assert (await ask())["state"] == "processing"
    await world.answer_calls()
    assert await ask() == {"executionId": f"{uid}-2", "executeNumber": 2, "state": "succeeded"}
    await client.post("/jobs/j1/trigger")
    assert (await ask())["state"] == "succeeded"
    del world.history.runs[uid, 2]
    assert (await ask())["state"] == "enqueued"


async def test_a_known_key_of_a_replay_shows_its_execution_as_it_is_now(
    client: httpx.AsyncClient, world: World
) -> None:
    """A replay under a known key as a trigger (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    first = (await client.post("/jobs/j1/trigger")).json()["data"]["executionId"]
    await world.answer_calls()
    ask: Any = {"url": f"/executions/{first}/replay", "headers": {"Idempotency-Key": "k"}}
    assert (await client.post(**ask)).json()["data"]["state"] == "processing"
    await world.answer_calls()
    again = (await client.post(**ask)).json()["data"]
    assert (again["executeNumber"], again["state"]) == (2, "succeeded")


async def test_reset_starts_one_execution_a_request(client: httpx.AsyncClient) -> None:
    """One that fails in the very turn that starts it is not started afresh again (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition(request=[{"url": "http://t.test/${$.day}"}]))
    numbers = []
    for _ in range(3):
        answer = await client.post("/jobs/j1/trigger?reset=failed", headers={"Idempotency-Key": "k"})
        numbers.append(answer.json()["data"]["executeNumber"])
    assert numbers == [1, 2, 3]


async def test_a_key_belongs_to_its_route(client: httpx.AsyncClient) -> None:
    """The same key on another job is another key."""
    for job_id in ("j1", "j2"):
        await client.post(f"/jobs/{job_id}", json=definition())
        answer = await client.post(f"/jobs/{job_id}/trigger", headers={"Idempotency-Key": "k"})
        assert answer.json()["data"]["executeNumber"] == 1


async def test_reset_starts_what_ended_so_afresh(client: httpx.AsyncClient, world: World) -> None:
    """`reset=succeeded` under a known key starts it afresh, once per end (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    ask: Any = {"headers": {"Idempotency-Key": "k"}}
    await client.post("/jobs/j1/trigger?reset=succeeded", **ask)
    running = await client.post("/jobs/j1/trigger?reset=succeeded", **ask)
    assert running.json()["data"]["executeNumber"] == 1
    await world.answer_calls()
    failed = await client.post("/jobs/j1/trigger?reset=failed", **ask)
    assert failed.json()["data"]["executeNumber"] == 1
    afresh = await client.post("/jobs/j1/trigger?reset=succeeded", **ask)
    assert afresh.json()["data"]["executeNumber"] == 2
    again = await client.post("/jobs/j1/trigger?reset=succeeded", **ask)
    assert again.json()["data"]["executeNumber"] == 2
    plain = await client.post("/jobs/j1/trigger", **ask)
    assert plain.json()["data"]["executeNumber"] == 2


async def test_feedback_decides_an_asynchronous_attempt(world: World) -> None:
    """Token first (403), then the form (422); the deciding one again 200; later ones 409 (SPEC section 5)."""
    async with world.client() as client:
        uid = (await client.post("/jobs/j1", json=definition(**{"async": True}))).json()["data"]["uid"]
        await client.post("/jobs/j1/trigger")
        await world.answer_calls()
        token = feedback_token(KEY, uid, 1)
        done = {"status": "succeed", "data": {}}
        url = "/jobs/j1/feedback/1"
        assert (await client.post(url, json=done)).status_code == 403
        assert (await client.post(url, json=done, params={"token": "x"})).status_code == 403
        assert (await client.post(url, json=[1], params={"token": token})).status_code == 422
        good = await client.post(url, json=done, params={"token": token})
        assert (good.status_code, good.json()["data"]) == (200, None)
        assert (await client.post(url, json=done, params={"token": token})).status_code == 200
        late = await client.post(url, json={"status": "failed"}, params={"token": token})
        assert (late.status_code, pointers(late)) == (409, [("/requestCounts", "stale")])
        assert (await client.post("/jobs/j9/feedback/1", json=done)).status_code == 404
        assert (await client.post("/jobs/j1/feedback/x", json=done)).status_code == 422
