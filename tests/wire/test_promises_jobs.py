"""What the API promises of jobs, over the whole service and a real target (SPEC section 10)."""

import json
import os
import platform
import pwd
import sqlite3
from datetime import datetime
from typing import Any

import httpx
import pytest

from scheduler_service.app.data_folder import known_formats
from scheduler_service.settings.sources import SettingsError, load_settings
from scheduler_service.telemetry.metrics.process_metrics import process_age
from tests.rows import each_row
from tests.wire.service import START, World, data_of, definition, pointers, running
from tests.wire.target import Reply


async def create(client: httpx.AsyncClient, job_id: str = "j", **members: Any) -> Any:
    """A new job."""
    return data_of(await client.post(f"/jobs/{job_id}", json=definition(**members)), 201)


async def ids(client: httpx.AsyncClient, query: str = "") -> list[str]:
    """The ids of a list of jobs."""
    return [item["jobId"] for item in data_of(await client.get(f"/jobs?{query}"))["items"]]


async def test_a_job_of_nobody_is_the_users_that_runs_the_service(client: httpx.AsyncClient) -> None:
    """Without keys `creator` and `creatorName` are the machine's user (SPEC section 2)."""
    given = {name: value for name, value in definition().items() if name not in ("creator", "creatorName")}
    for _ in range(2):
        answer = await client.post("/jobs/j", json=given)
        shown = answer.json()["data"]["definition"]
        assert shown["creator"] == shown["creatorName"] == pwd.getpwuid(os.geteuid()).pw_name
    assert answer.status_code == 200


async def test_what_a_change_answers_is_in_lists_at_once(client: httpx.AsyncClient) -> None:
    """Created, paused, updated, destroyed: the next list says so (SPEC section 10)."""
    await create(client, labels={"team": "ops"})
    assert await ids(client, "label=team:ops") == ["j"]
    data_of(await client.put("/jobs/j?active=0"))
    assert (await ids(client, "state=paused"), await ids(client, "state=active")) == (["j"], [])
    data_of(await client.post("/jobs/j/update", json=definition(jobName="renamed", labels={"team": "dev"})))
    assert (await ids(client, "text=RENAMED"), await ids(client, "label=team:ops")) == (["j"], [])
    data_of(await client.delete("/jobs/j"))
    assert (await ids(client), await ids(client, "state=destroyed")) == ([], ["j"])


async def test_pages_of_each_sorting_show_all_jobs_once(client: httpx.AsyncClient) -> None:
    """Sorted by anything, from either end, pages of two show what the whole list shows (SPEC section 10)."""
    for number in range(7):
        await create(client, f"j{number}", timer={"dueTime": f"{number % 3 + 1}h", "period": "1h"})
    described = (await client.get("/openapi.json")).json()
    sorts = [one for one in described["paths"]["/jobs"]["get"]["parameters"] if one["name"] == "sort"]
    for sort in sorts[0]["schema"]["enum"]:
        whole = await ids(client, f"sort={sort}")
        assert sorted(whole) == [f"j{number}" for number in range(7)]
        paged: list[str] = []
        cursor = ""
        while True:
            page = data_of(await client.get(f"/jobs?sort={sort}&limit=2{cursor}"))
            paged += [item["jobId"] for item in page["items"]]
            if page["nextCursor"] is None:
                break
            cursor = f"&cursor={page['nextCursor']}"
        assert paged == whole, sort


async def test_a_key_is_known_for_a_day(world: World) -> None:
    """`Idempotency-Key` is honoured for 24 h (SPEC section 10)."""
    await create(world.client, overlapPolicy="allow")
    headers = {"idempotency-key": "daily"}
    numbers = []
    for pause in (0, 86_000, 800):
        world.clock.advance(pause * 1_000)
        await world.settle()
        numbers.append(data_of(await world.client.post("/jobs/j/trigger", headers=headers))["executeNumber"])
    assert numbers == [1, 1, 2]


async def test_system_jobs_are_the_scheduler_s_own(client: httpx.AsyncClient) -> None:
    """Listed with `?system=true`, triggerable, pausable; not replaced, not destroyed (SPEC section 11)."""
    names = await ids(client, "system=true")
    assert names == ["check-timers", "clean", "outbox"]
    assert data_of(await client.get("/upcoming"))["items"] == []
    named = data_of(await client.get("/upcoming?jobId=outbox&perJob=1"))["items"]
    assert [one["jobId"] for one in named] == ["outbox"]
    for name in names:
        data_of(await client.post(f"/jobs/{name}/trigger"))
        assert data_of(await client.put(f"/jobs/{name}?active=0"))["state"] == "paused"
        assert (await client.delete(f"/jobs/{name}")).status_code == 409
        for path in (f"/jobs/{name}", f"/jobs/{name}/update"):
            refused = await client.post(path, json=definition())
            assert (refused.status_code, pointers(refused)) == (422, [("/jobId", "reserved")])
        bulk = data_of(await client.post("/jobs?onExisting=update", json=[definition(jobId=name)]))["items"]
        assert bulk[0]["status"] == "refused"
        assert data_of(await client.get(f"/jobs/{name}"))["creator"] == "system"
    refused = await client.post("/jobs/j", json=definition(request=[{"url": "system://clean"}]))
    assert (refused.status_code, pointers(refused)[0][0]) == (422, "/request/0/url")


POLICY = {"errorEquals": "500", "maxAttempts": 1, "intervalSeconds": 5}


@each_row(
    ("own", "source", "attempts"),
    [({}, "platform", 2), ({"retry": []}, "job", 1), ({"retry": [POLICY | {"maxAttempts": 2}]}, "job", 3)],
)
async def test_retries_of_the_settings(own: dict[str, object], source: str, attempts: int) -> None:
    """They are those of a job that gives none; options and the plan of retries show them."""
    async with running(defaults={"retry": [POLICY]}, history={"detail": "failures"}) as world:
        world.target.always("/run", Reply(500))
        posted = definition(request=[{"url": f"{world.target.url}/run"}], **own)
        job = data_of(await world.client.post("/jobs/j", json=posted), 201)
        shown = own.get("retry", [POLICY])
        assert job["options"]["retry"] == {"value": shown, "source": source}
        assert job["options"]["qos"] == {"value": 0, "source": "product"}
        assert job["options"]["historyDetail"] == {"value": "failures", "source": "platform"}
        plan = data_of(await world.client.get("/jobs/j/retry-plan", params={"error": "500"}))
        assert len(plan["items"]) == attempts - 1
        execution = data_of(await world.client.post("/jobs/j/trigger"))["executionId"]
        await world.advance(60)
        ended = await world.ended(execution)
    assert (ended["state"], ended["attemptCount"]) == ("terminated", attempts)


@each_row("wrong", [{"errorEquals": []}, {"errorEquals": "500", "max": 1}, {}])
async def test_a_wrong_policy_is_refused_at_the_start(wrong: dict[str, object]) -> None:
    """By its name."""
    with pytest.raises(SettingsError, match=r"defaults\.retry"):
        load_settings({}, {"PUNCTUAL_DEFAULTS__RETRY": json.dumps([wrong])})


@each_row(("posted", "shown"), [({}, "keep"), ({"onChange": "update"}, "update")])
async def test_stored_edits_may_win(posted: dict[str, object], shown: str) -> None:
    """A service that does not say whether they do has the setting; its first instance makes it so, too."""
    async with running(defaults={"on_change": "keep"}) as world:
        data_of(await world.client.put("/services/shop", json=posted), 201)
        assert data_of(await world.client.get("/services/shop"))["onChange"] == shown
        instance = {"address": world.target.url}
        data_of(await world.client.put("/services/till/instances/a", json=instance), 201)
        assert data_of(await world.client.get("/services/till"))["onChange"] == "keep"


async def test_a_node_shows_when_it_started(world: World) -> None:
    """The start of the process, whenever it is asked; its heartbeat is the present moment."""
    shown = []
    for asked_after in (60, 120):
        await world.advance(60)
        [node] = data_of(await world.client.get("/nodes"))["items"]
        assert datetime.fromisoformat(node["lastHeartbeat"]).timestamp() == START / 1_000 + asked_after
        shown.append(node["startedAt"])
    assert len(set(shown)) == 1
    age = START / 1_000 - datetime.fromisoformat(shown[0]).timestamp()
    assert 0 < age <= process_age() / 1_000
    # Its process, and what it stands on: the figures of the node are the sums over its processes
    [node] = data_of(await world.client.get("/nodes"))["items"]
    [process] = node["processes"]
    assert (process["shard"], process["pid"], process["state"]) == (0, os.getpid(), "running")
    assert (process["jobsHeld"], process["startedAt"]) == (node["jobsHeld"], node["startedAt"])
    assert process["loopHeldMs"] >= 0
    assert node["versions"]["python"] == platform.python_version()
    assert node["versions"]["sqlite"] == sqlite3.sqlite_version
    assert node["versions"]["punctual"] == node["version"]
    assert node["formats"] == {name: known_formats()[name] for name in ("state", "history")}
