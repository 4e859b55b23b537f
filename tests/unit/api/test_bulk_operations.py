"""One command for many jobs or executions: chosen, tried dry, carried out, reported (SPEC section 10)."""

import asyncio
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import OPERATIONS, Endpoint
from scheduler_service.security.callers import Caller, Role
from scheduler_service.security.key_ring import KeyRing
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers, start
from tests.unit.security.memory_keys import MemoryKeys

TICKING = {"dueTime": "1h", "period": "1h"}


async def fill(client: httpx.AsyncClient, count: int, **members: Any) -> list[str]:
    """So many jobs, `j0` and so on."""
    names = [f"j{number}" for number in range(count)]
    body = [{"jobId": name, **definition(timer=TICKING, **members)} for name in names]
    assert (await client.post("/jobs", json=body)).is_success
    return names


async def ask(client: httpx.AsyncClient, body: dict[str, Any], what: str = "jobs", **options: Any) -> Any:
    """`data` of a bulk request that is accepted."""
    answer = await client.post(f"/bulk/{what}", json=body, **options)
    assert answer.is_success, answer.text
    return answer.json()["data"]


async def states(client: httpx.AsyncClient) -> dict[str, str]:
    """The states of all jobs."""
    items = (await client.get("/jobs?limit=500")).json()["data"]["items"]
    return {item["jobId"]: item["state"] for item in items}


async def test_jobs_are_paused_and_resumed_by_a_filter(client: httpx.AsyncClient) -> None:
    """Those that the filter finds, and no other; the report counts them."""
    await fill(client, 3, labels={"team": "ops"})
    await client.post("/jobs/other", json=definition(timer=TICKING))
    select = {"filter": {"label": "team:ops", "state": "active"}}
    dry = await ask(client, {"action": "pause", "select": select, "dryRun": True})
    assert dry == {"dryRun": True, "count": 3, "first": ["j0", "j1", "j2"], "operation": None}
    assert set((await states(client)).values()) == {"active"}
    done = await ask(client, {"action": "pause", "select": select})
    operation = done["operation"]
    assert (done["count"], operation["state"], operation["succeeded"]) == (3, "done", 3)
    assert (operation["total"], operation["done"], operation["failed"]) == (3, 3, 0)
    assert operation["endedAt"] is not None
    assert await states(client) == {"j0": "paused", "j1": "paused", "j2": "paused", "other": "active"}
    assert (await client.get(f"/operations/{operation['operationId']}")).json()["data"] == operation
    back = await ask(client, {"action": "resume", "select": {"jobIds": ["j0", "j1", "j0"]}})
    assert back["operation"]["succeeded"] == 2
    assert (await states(client))["j1"] == "active"


async def test_jobs_are_disabled_and_enabled_by_a_filter(client: httpx.AsyncClient) -> None:
    """Those that are so already keep their revision; the rest of each definition stays."""
    await fill(client, 2, labels={"team": "ops"})
    await client.put("/jobs/j0?disabled=true")
    select = {"filter": {"label": "team:ops"}}
    for action, disabled in (("disable", True), ("enable", False)):
        done = await ask(client, {"action": action, "select": select})
        assert done["operation"]["succeeded"] == 2
        jobs = [(await client.get(f"/jobs/{name}")).json()["data"] for name in ("j0", "j1")]
        assert [job["disabled"] for job in jobs] == [disabled, disabled]
        assert [job["revision"] for job in jobs] == ([2, 2] if disabled else [3, 3])
    again = await ask(client, {"action": "enable", "select": select})
    assert again["operation"]["succeeded"] == 2
    assert (await client.get("/jobs/j1")).json()["data"]["revision"] == 3


async def test_many_named_jobs_are_looked_up_few_at_a_time(client: httpx.AsyncClient, world: World) -> None:
    """Each may have labels of a MiB."""
    names = await fill(client, 45)
    world.catalogue.most_asked = 0
    dry = await ask(client, {"action": "pause", "select": {"jobIds": names}, "dryRun": True})
    assert (dry["count"], dry["first"]) == (45, names)
    assert world.catalogue.most_asked == 20


async def test_what_is_refused_is_reported_and_stops_nothing(client: httpx.AsyncClient) -> None:
    """Each job on its own: the problem is the one of its own route."""
    await fill(client, 1)
    named = [f"lost{number}" for number in range(150)]
    done = await ask(client, {"action": "destroy", "select": {"jobIds": [*named, "j0"]}})
    operation_id = done["operation"]["operationId"]
    async with asyncio.timeout(30):
        while (operation := await read(client, operation_id))["state"] == "running":  # noqa: ASYNC110 - a task tells nobody
            await asyncio.sleep(0)
    assert (operation["succeeded"], operation["failed"], operation["total"]) == (1, 150, 151)
    assert (len(operation["problems"]), operation["moreProblems"]) == (100, 50)
    one = operation["problems"][0]
    own = await client.delete("/jobs/lost0")
    assert one == {"jobId": "lost0", "executionId": None, "problem": own.json()}
    assert await states(client) == {}
    dry = {"action": "destroy", "select": {"jobIds": ["j0", "nobody"]}, "dryRun": True}
    assert (await ask(client, dry))["count"] == 0


async def read(client: httpx.AsyncClient, operation_id: str) -> dict[str, Any]:
    """An operation."""
    data: dict[str, Any] = (await client.get(f"/operations/{operation_id}")).json()["data"]
    return data


async def test_a_trigger_reports_what_it_started(client: httpx.AsyncClient, world: World) -> None:
    """Each execution has the parameters; under one Idempotency-Key each job is triggered once."""
    await fill(client, 2)
    body = {"action": "trigger", "select": {"jobIds": ["j0", "j1"]}, "params": {"size": 3}}
    first = await ask(client, body, headers={"Idempotency-Key": "k"})
    started = first["operation"]["started"]
    assert [one["jobId"] for one in started] == ["j0", "j1"]
    full = (await client.get(f"/executions/{started[0]['executionId']}")).json()["data"]
    assert full["params"] == {"size": 3}
    again = await ask(client, body, headers={"Idempotency-Key": "k"})
    assert again == first
    other = await client.post("/bulk/jobs", json=body | {"params": {}}, headers={"Idempotency-Key": "k"})
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]
    assert len(world.history.runs) == 2


async def test_an_operation_ends_with_the_key_that_began_it() -> None:
    """Nothing is done any more for one that was revoked; what was done is reported (SPEC section 14)."""
    clock = ManualClock(wall=START)
    ring = KeyRing(table=MemoryKeys(), clock=clock)
    world = World(admin_key="the-key-of-the-settings", key_ring=ring, clock=clock)
    admin = {"Authorization": "Bearer the-key-of-the-settings"}
    async with world.client() as client:
        made = (await client.post("/keys", json={"name": "x", "role": "editor"}, headers=admin)).json()[
            "data"
        ]
        for number in range(20):
            await client.post(f"/jobs/j{number}", json=definition(timer=TICKING), headers=admin)
        deliver, left = world.deliver, [3]

        async def deliver_then_revoke(*given: Any, **members: Any) -> Any:
            reply = await deliver(*given, **members)
            left[0] -= 1
            if left[0] == 0:
                await ring.revoke(made["keyId"])
            return reply

        world.deliver = deliver_then_revoke  # type: ignore[method-assign]
        body = {"action": "pause", "select": {"filter": {}}}
        own = {"Authorization": f"Bearer {made['key']}"}
        begun = (await client.post("/bulk/jobs", json=body, headers=own)).json()["data"]["operation"]
        listed = (await client.get("/jobs?limit=500", headers=admin)).json()["data"]["items"]
    paused = [one for one in listed if one["state"] == "paused"]
    assert begun["state"] == "cancelled"
    assert begun["succeeded"] == len(paused) < 20
    assert {one["problem"]["status"] for one in begun["problems"]} == {401}


async def test_labels_are_set_and_removed_and_nothing_else_changes(
    client: httpx.AsyncClient, world: World
) -> None:
    """A new revision with the text as it was posted otherwise; the schedule stays, and no `one_time` runs."""
    await fill(client, 1, labels={"old": "1", "kept": "2"})
    once = definition(timer={"dueTime": "1h"}, jobDescription="as it was")
    await client.post("/jobs/once", json=once)
    before = (await client.get("/jobs/once")).json()["data"]
    world.wall += 60_000
    labels = {"team": "ops", "old": None}
    done = await ask(client, {"action": "label", "select": {"filter": {}}, "labels": labels})
    assert done["operation"]["succeeded"] == 2
    job = (await client.get("/jobs/j0")).json()["data"]
    assert (job["labels"], job["revision"]) == ({"kept": "2", "team": "ops"}, 2)
    after = (await client.get("/jobs/once")).json()["data"]
    assert after["definition"] == before["definition"] | {"labels": {"team": "ops"}}
    assert after["nextFireTime"] == before["nextFireTime"]
    assert after["executeNumber"] == before["executeNumber"]
    await ask(client, {"action": "label", "select": {"filter": {}}, "labels": labels})
    assert (await client.get("/jobs/j0")).json()["data"]["revision"] == 2


async def test_open_executions_are_cancelled_and_failed_ones_replayed(
    client: httpx.AsyncClient, world: World
) -> None:
    """`cancel` by a filter finds those that have not ended; a replay has its own parameters."""
    failed = await start(client, "j1")
    await world.answer_calls(status=500)
    running = await start(client, "j2")
    replay = {"action": "replay", "select": {"filter": {"outcome": "failed"}}}
    assert (await ask(client, replay | {"dryRun": True}, "executions"))["first"] == [failed]
    done = (await ask(client, replay, "executions", headers={"Idempotency-Key": "r"}))["operation"]
    assert (done["succeeded"], done["started"][0]["jobId"]) == (1, "j1")
    cancel = {"action": "cancel", "select": {"filter": {}}, "reason": "wrong input"}
    dry = await ask(client, cancel | {"dryRun": True}, "executions")
    assert set(dry["first"]) == {running, done["started"][0]["executionId"]}
    ended = (await ask(client, cancel, "executions"))["operation"]
    assert (ended["succeeded"], ended["failed"]) == (2, 0)
    both = {"action": "cancel", "select": {"executionIds": [running, "nobody-1"]}}
    refused = (await ask(client, both, "executions"))["operation"]
    assert [one["problem"]["status"] for one in refused["problems"]] == [409, 404]
    assert refused["problems"][0]["executionId"] == running


def by(**filters: Any) -> dict[str, Any]:
    """A selection by these filters."""
    return {"filter": filters}


@pytest.mark.parametrize(
    ("what", "action", "members", "pointer", "code"),
    [
        ("jobs", "pause", {"select": {}}, "/select", "required"),
        ("jobs", "pause", {"select": {"jobIds": [], "filter": {}}}, "/select", "required"),
        ("jobs", "stop", {"select": by()}, "/action", "choice"),
        ("jobs", "pause", {}, "/select", "required"),
        ("jobs", "label", {"select": by()}, "/labels", "required"),
        ("jobs", "pause", {"select": by(), "labels": {"a": "b"}}, "/labels", "contradiction"),
        ("jobs", "pause", {"select": by(colour="red")}, "/select/filter/colour", "unknown_parameter"),
        ("jobs", "pause", {"select": by(state="broken")}, "/select/filter/state", "invalid"),
        ("jobs", "pause", {"select": by(label={"a": "b"})}, "/select/filter/label", "type"),
        ("jobs", "pause", {"select": by(limit=5)}, "/select/filter/limit", "unknown_parameter"),
        ("jobs", "pause", {"select": {"jobIds": ["a b"]}}, "/select/jobIds/0", "pattern"),
        ("executions", "cancel", {"select": by(), "fromStep": 1}, "/fromStep", "contradiction"),
        ("executions", "replay", {"select": by(**{"from": "noon"})}, "/select/filter/from", "invalid"),
    ],
)
async def test_a_wrong_request_names_the_member(
    client: httpx.AsyncClient, what: str, action: str, members: dict[str, Any], pointer: str, code: str
) -> None:
    """A 422 with its place, and nothing is done."""
    refused = await client.post(f"/bulk/{what}", json={"action": action, **members})
    assert refused.status_code == 422
    assert pointers(refused) == [(pointer, code)]


@pytest.mark.parametrize(
    ("what", "filters", "code"),
    [
        ("jobs", {"label": []}, "empty"),
        ("jobs", {"label": None}, "empty"),
        ("jobs", {"state": []}, "empty"),
        ("jobs", {"creator": []}, "empty"),
        ("jobs", {"text": None}, "empty"),
        ("jobs", {"text": ""}, "invalid"),
        ("jobs", {"label": ""}, "invalid"),
        ("jobs", {"label": [""]}, "invalid"),
        ("jobs", {"state": ""}, "invalid"),
        ("jobs", {"system": None}, "empty"),
        ("jobs", {"parentJobExecution": ""}, "invalid"),
        ("jobs", {"lable": []}, "unknown_parameter"),
        ("jobs", {"lable": None}, "unknown_parameter"),
        ("jobs", {"lable": {}}, "unknown_parameter"),
        ("jobs", {"": []}, "unknown_parameter"),
        ("jobs", {"a/b": None}, "unknown_parameter"),
        ("executions", {"jobId": []}, "empty"),
        ("executions", {"jobId": None}, "empty"),
        ("executions", {"jobId": ""}, "invalid"),
        ("executions", {"state": []}, "empty"),
        ("executions", {"from": None}, "empty"),
        ("executions", {"job": []}, "unknown_parameter"),
    ],
    ids=repr,
)
async def test_a_filter_that_says_nothing_is_not_all(
    client: httpx.AsyncClient, what: str, filters: dict[str, Any], code: str
) -> None:
    """Beside others as well; only `{}` is all."""
    await start(client, "j")
    action, others = ("destroy", {"kind": "cron"}) if what == "jobs" else ("replay", {"error": "500"})
    (name,) = filters
    pointer = "/select/filter/" + name.replace("/", "~1")
    for given in (filters, others | filters, filters | others):
        for dry in (True, False):
            body = {"action": action, "select": {"filter": given}, "dryRun": dry}
            refused = await client.post(f"/bulk/{what}", json=body)
            assert (refused.status_code, pointers(refused)) == (422, [(pointer, code)]), refused.text
    everything = {"action": action, "select": {"filter": {}}, "dryRun": True}
    assert (await ask(client, everything, what))["count"] == 1
    assert list(await states(client)) == ["j"]


@pytest.mark.parametrize(("what", "name"), [("jobs", "jobIds"), ("executions", "executionIds")])
async def test_no_ids_are_nothing(client: httpx.AsyncClient, what: str, name: str) -> None:
    """An empty list of them selects none, and null is no selection."""
    await start(client, "j")
    action = "destroy" if what == "jobs" else "replay"
    done = await ask(client, {"action": action, "select": {name: []}}, what)
    assert (done["count"], done["operation"]["state"], done["operation"]["done"]) == (0, "done", 0)
    for select in ({name: None}, {"filter": None}, {name: None, "filter": None}):
        refused = await client.post(f"/bulk/{what}", json={"action": action, "select": select})
        assert pointers(refused) == [("/select", "required")]
    assert list(await states(client)) == ["j"]


@pytest.mark.parametrize("path", ["/jobs", "/counts/jobs", "/executions", "/counts/executions"])
async def test_an_empty_parameter_is_not_all(client: httpx.AsyncClient, path: str) -> None:
    """Nor in queries of lists and counts, with or without `=`."""
    for name in ("label", "state", "text", "creator") if "jobs" in path else ("label", "jobId", "error"):
        for query in (name, f"{name}="):
            refused = await client.get(f"{path}?{query}")
            assert (refused.status_code, pointers(refused)) == (422, [(f"/{name}", "invalid")])


async def test_the_role_is_that_of_the_action(client: httpx.AsyncClient, world: World) -> None:
    """An operator pauses; labels and destruction are an editor's, as on the routes of one job."""
    await fill(client, 1)
    route = next(one for one in OPERATIONS if one.name == "changeManyJobs")
    eve = Caller("default", Role.OPERATOR, name="eve")
    endpoint = Endpoint(deps=world.deps, authenticate=lambda _scope, _open: eve, operations=[route])

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        scope["path_params"] = {}
        await endpoint(scope, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(serve), base_url="http://localhost") as other:
        paused = await ask(other, {"action": "pause", "select": {"filter": {}}})
        assert paused["operation"]["createdBy"] == "eve"
        for action in ({"action": "destroy"}, {"action": "label", "labels": {"a": "b"}}):
            refused = await other.post("/bulk/jobs", json={**action, "select": {"filter": {}}})
            assert (refused.status_code, pointers(refused)) == (403, [("/Authorization", "role")])


async def test_a_job_called_bulk_is_a_job(client: httpx.AsyncClient) -> None:
    """The routes are beside those of jobs: any id stays reachable."""
    for name in ("bulk", "operations", "executions", "jobs", "outcomes", "counts", "series"):
        assert (await client.post(f"/jobs/{name}", json=definition())).status_code == 201
        assert (await client.get(f"/jobs/{name}")).json()["data"]["jobId"] == name
