"""A start: what is not known yet ends nothing; the own service; a history that is away (SPEC section 8)."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.app.local_service import open_service
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.settings import LoadedSettings, Settings
from tests.unit.persistence.servers import each_server, make_database
from tests.wire.service import SERVED, World, data_of, definition, pointers, running
from tests.wire.target import Target

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
STEP = {"url": "service://shop/run"}


async def register(world: World, target: Target) -> None:
    """What an instance sends first, and again when its heartbeat is answered 404."""
    answer = await world.client.put("/services/shop/instances/a", json={"address": target.url})
    data_of(answer, 201)


async def first_life(folder: Path) -> None:
    """A scheduler that knew the shop and its instance, and is no more."""
    async with running(store={"data": str(folder)}) as world:
        await register(world, world.target)
        data_of(await world.client.post("/jobs/j", json=definition(request=[STEP], timeoutSeconds=30)), 201)


async def trigger(world: World) -> str:
    """One execution; its id."""
    return str(data_of(await world.client.post("/jobs/j/trigger"))["executionId"])


async def is_waiting(world: World) -> bool:
    """Whether its step looks for an instance."""
    host: Any = world.service.host
    return host.effects.calls.parts == 1


async def test_a_step_waits_for_the_instances_of_before(tmp_path: Path) -> None:
    """Its first attempt is sent as soon as the instance is back, though it was triggered before that."""
    await first_life(tmp_path)
    async with running(store={"data": str(tmp_path)}) as world:
        heartbeat = "/services/shop/instances/a/heartbeat"
        execution = await trigger(world)
        await world.until(lambda: is_waiting(world))
        world.clock.advance(3_000)
        assert (await world.client.post(heartbeat)).status_code == 404
        await register(world, world.target)
        world.clock.advance(250)
        ended = await world.ended(execution)
    assert (ended["state"], ended["attemptCount"]) == ("succeeded", 1)


async def test_a_notification_that_was_lost_with_its_process_is_dismissed(tmp_path: Path) -> None:
    """Without a guarantee it was in memory alone: it cannot be sent again, and stays pending no longer."""
    told = [{"url": "service://jobsclient/told", "stateEquals": "finalSucceed"}]
    pending, failed = "/deliveries?state=pending", [500]
    async with running(store={"data": str(tmp_path)}) as world:
        world.target.answers("/told", *failed)
        data_of(await world.client.post("/jobs/j", json=definition(notification=told)), 201)
        await world.ended(await trigger(world))

        async def tried() -> Any:
            items = data_of(await world.client.get(pending))["items"]
            return items and items[0]["attempts"] and items[0]

        before = await world.until(tried)
    async with running(store={"data": str(tmp_path)}) as world:
        path = f"/deliveries/{before['deliveryId']}"
        refused = await world.client.post(f"{path}/resend")
        assert (refused.status_code, "dismiss it" in refused.json()["detail"]) == (409, True)
        data_of(await world.client.post(f"{path}/dismiss"))
        assert data_of(await world.client.get(pending))["items"] == []
        (after,) = data_of(await world.client.get("/deliveries?state=dismissed"))["items"]
        assert after == before | {"state": "dismissed", "nextTryAt": None}
        assert (await world.client.post(f"{path}/dismiss")).status_code == 409


async def test_a_job_whose_calendar_is_missing_is_named(tmp_path: Path) -> None:
    """Its database was restored from an earlier day: the job stands still, and goes on when it is there."""
    timer = {"period": "0 0 9 * * ?", "calendar": "office"}
    async with running(store={"data": str(tmp_path)}) as world:
        data_of(await world.client.put("/calendars/office", json={"week": [1, 2, 3, 4, 5, 6, 7]}), 200)
        data_of(await world.client.post("/jobs/j", json=definition(timer=timer)), 201)
    async with running(store={"data": str(tmp_path)}):
        """A start that finds it."""
    with closing(sqlite3.connect(tmp_path / "history.db")) as database, database:
        database.execute("DELETE FROM calendars")
    async with running(store={"data": str(tmp_path)}) as world:
        await world.settle()
        job = data_of(await world.client.get("/jobs/j"))
        assert (job["nextFireTime"], "there is no calendar 'office'" in job["cannotRun"]) == (None, True)
        assert data_of(await world.client.get("/counts/jobs"))["cannotRun"] == 1
        data_of(await world.client.put("/calendars/office", json={"week": [1, 2, 3, 4, 5, 6, 7]}), 200)
        await world.settle()
        assert data_of(await world.client.get("/jobs/j"))["nextFireTime"] == "2026-01-01T09:00:00.000Z"


def declared(job_id: str = "own.job", **members: Any) -> dict[str, Any]:
    """A job as its service declares it."""
    return definition(jobId=job_id, request=[{"url": "service:/own/run"}]) | members


async def execute(world: World, job_id: str = "own.job") -> dict[str, Any]:
    """One execution in full."""
    started = data_of(await world.client.post(f"/jobs/{job_id}/trigger", json={}))
    await world.advance(2)
    return await world.ended(started["executionId"])


OWN_URLS = ["service:/own/run", "service://{serviceName}/run", "service://{serviceGateway}/{serviceName}/run"]


@pytest.mark.parametrize("url", OWN_URLS)
@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        (lambda url: {"request": [{"url": "service://own/x"}, {"url": url}]}, "/request/1/url"),
        (lambda url: {"async": True, "checkUrl": url, "request": [{"url": "service://own/x"}]}, "/checkUrl"),
        (lambda url: {"request": [{"url": "service://own/x"}], "cancelUrl": {"url": url}}, "/cancelUrl"),
    ],
)
async def test_a_job_of_nobody_is_refused(world: World, url: str, members: Any, pointer: str) -> None:
    """Created, in an array, or by an update: it has no service of its own to call (SPEC section 9)."""
    job = definition(jobId="own.job", **members(url))
    created = await world.client.post("/jobs/own.job", json=job)
    assert (created.status_code, pointers(created)) == (422, [(pointer, "invalid")])
    assert "X-Service" in created.json()["detail"]
    [one] = data_of(await world.client.post("/jobs", json=[job]))["items"]
    assert (one["status"], one["problem"]["errors"][0]["pointer"]) == ("refused", pointer)
    assert (await world.client.get("/jobs/own.job")).status_code == 404
    data_of(await world.client.post("/jobs/own.job", json=definition(jobId="own.job")), 201)
    updated = await world.client.post("/jobs/own.job/update", json=job)
    assert (updated.status_code, pointers(updated)) == (422, [(pointer, "invalid")])
    assert data_of(await world.client.get("/jobs/own.job"))["revision"] == 1


@pytest.mark.parametrize("in_array", [False, True])
async def test_a_job_that_a_service_posts_calls_that_service(world: World, in_array: bool) -> None:
    """By its header `X-Service`; an update keeps the owner unless it names another one (SPEC section 9)."""
    mine = {"X-Service": "own"}
    data_of(await world.client.put("/services/own", json={"address": world.target.url}), 201)
    if in_array:
        [one] = data_of(await world.client.post("/jobs", json=[declared()], headers=mine))["items"]
        assert one["status"] == "created"
    else:
        data_of(await world.client.post("/jobs/own.job", json=declared(), headers=mine), 201)
    assert (await execute(world))["state"] == "succeeded"
    data_of(await world.client.post("/jobs/own.job/update", json=declared(jobName="edited")))
    assert (await execute(world))["state"] == "succeeded"
    assert len(world.target.at("/own/run")) == 2
    async with Target(lambda: 0) as other:
        world.instances["b"] = other
        data_of(await world.client.put("/services/other", json={"address": other.url}), 201)
        theirs = {"X-Service": "other"}
        data_of(await world.client.post("/jobs/own.job/update", json=declared(), headers=theirs))
        assert (await execute(world))["state"] == "succeeded"
        assert len(other.at("/own/run")) == 1


async def test_the_owner_survives_a_restart(tmp_path: Path) -> None:
    """It is a part of the job's state."""
    folder = {"store": {"data": str(tmp_path)}}
    async with running(**folder) as world:
        mine = {"X-Service": "own"}
        data_of(await world.client.post("/jobs/own.job", json=declared(), headers=mine), 201)
    async with running(**folder) as world:
        data_of(await world.client.put("/services/own", json={"address": world.target.url}), 201)
        assert (await execute(world))["state"] == "succeeded"
        assert len(world.target.at("/own/run")) == 1


server_url = each_server
LISTS = ("/executions", "/executions?state=succeeded", "/jobs/j/executions", "/deliveries", "/stats")


async def run(world: World) -> dict[str, Any]:
    """One execution of the job, to its end."""
    started = data_of(await world.client.post("/jobs/j/trigger", json={"n": 1}))
    await world.settle()
    return await world.ended(started["executionId"])


async def is_delivered(world: World) -> bool:
    """Whether the notification has left and the history has it."""
    items = data_of(await world.client.get("/deliveries"))["items"]
    return [one["state"] for one in items] == ["delivered"]


def another(url: str) -> str:
    """A further database of the same server."""
    return make_database(url.rpartition("/")[0])


def without_moments(value: Any) -> Any:
    """What two runs have in common: all but ids, ports and what a clock says."""
    if isinstance(value, list):
        return [without_moments(member) for member in value]
    if not isinstance(value, dict):
        return value
    own = {"executionId", "traceId", "deliveryId", "instance"}
    changing = own | {"headers", "durationMs", "url", "request", "at"}
    return {name: without_moments(one) for name, one in value.items() if name not in changing}


async def test_an_execution_is_told_as_with_sqlite(server_url: str) -> None:
    """Steps, notifications, lists, the log, the ledger's filters and statistics: the same answers."""
    notified = [{"url": "service://jobsclient/note", "stateEquals": "finalSucceed"}]
    told = []
    for settings in (
        {},
        {"database": {"url": server_url}},
        {"store": {"data": ":memory:", "url": another(server_url)}},
    ):
        async with running(**settings) as world:
            data_of(await world.client.post("/jobs/j", json=definition(notification=notified)), 201)
            execution_id = (await run(world))["executionId"]
            await world.until(lambda: is_delivered(world))
            full = data_of(await world.client.get(f"/executions/{execution_id}"))
            assert full["state"] == "succeeded"
            answers = [data_of(await world.client.get(path)) for path in LISTS]
            log = data_of(await world.client.get(f"/executions/{execution_id}/log"))
            told.append(without_moments([full, answers, sorted(line["kind"] for line in log["items"])]))
    assert told[0] == told[1] == told[2]


async def test_the_history_outlives_the_service(server_url: str) -> None:
    """A second service on the same database shows what the first one did; so do services and cleaning."""
    async with running(database={"url": server_url}) as world:
        data_of(await world.client.post("/jobs/j", json=definition()), 201)
        execution_id = (await run(world))["executionId"]
        await world.client.put("/services/shop", json={})
    async with running(database={"url": server_url}) as world:
        assert data_of(await world.client.get(f"/executions/{execution_id}"))["state"] == "succeeded"
        assert [one["name"] for one in data_of(await world.client.get("/services"))["items"]] == ["shop"]
        removed = data_of(await world.client.delete("/main/schedule/clean?retainExecutionCount=0"))
        assert removed["executions"] >= 1
        assert data_of(await world.client.get("/executions"))["items"] == []


async def test_a_service_whose_history_is_away_does_not_start() -> None:
    """It says which server it looked for, and no password."""
    given = {"store": {"data": ":memory:"}, "database": {"url": "postgresql://p:secret@127.0.0.1:1/h"}}
    with pytest.raises(StoreUnavailable, match=r"PostgreSQL at 127\.0\.0\.1:1 ") as found:
        await open_service(
            LoadedSettings(Settings.model_validate(given), {}),
            served=SERVED,
            log=lambda event, /, **keys: None,
        )
    assert "secret" not in str(found.value)


async def test_a_secret_or_service_that_is_gone_is_named(tmp_path: Path) -> None:
    """By the job, the counts that `punctual doctor` reads and the next start, until it is back."""
    given: dict[str, Any] = {"store": {"data": str(tmp_path)}, "secrets_key": [KEY]}
    steps = {
        "header": {"url": "service://jobswork/a", "headers": {"X-Key": "${secrets.TOKEN}"}},
        "sign": {"url": "service://jobswork/a", "sign": "TOKEN"},
        "service": {"url": "service://gone/a"},
    }
    secret = {"value": f"whsec_{KEY}"}

    async def blocked(world: World) -> dict[str, str]:
        counted = data_of(await world.client.get("/counts/jobs"))["cannotRunJobs"]
        read = {one: data_of(await world.client.get(f"/jobs/{one}"))["cannotRun"] for one in steps}
        named = {one: text for one, text in read.items() if text}
        assert {one["jobId"]: one["problem"] for one in counted} == named
        return named

    async with running(**given) as world:
        data_of(await world.client.put("/secrets/TOKEN", json=secret))
        data_of(await world.client.put("/services/gone", json={"address": "http://127.0.0.1:9"}), 201)
        for job_id, step in steps.items():
            data_of(await world.client.post(f"/jobs/{job_id}", json=definition(request=[step])), 201)
        assert await blocked(world) == {}
        data_of(await world.client.delete("/secrets/TOKEN"))
        data_of(await world.client.delete("/services/gone"))
        found = await blocked(world)
        assert set(found) == set(steps)
        assert "'TOKEN'" in found["header"]
        assert "TOKEN" in found["sign"]
        assert "there is no service 'gone'" in found["service"]
    async with running(**given) as world:
        assert await blocked(world) == found
        assert {keys["jobId"] for event, keys in world.log if event == "job_blocked"} == set(steps)
        data_of(await world.client.put("/secrets/TOKEN", json=secret))
        assert set(await blocked(world)) == {"service"}
