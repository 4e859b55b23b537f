"""What the API promises of executions, firings and deliveries, over the whole service (SPEC section 10)."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from tests.wire.service import START, World, data_of, definition, pointers, running
from tests.wire.target import HELD, Reply


async def create(client: httpx.AsyncClient, job_id: str = "j", **members: Any) -> Any:
    """A new job."""
    return data_of(await client.post(f"/jobs/{job_id}", json=definition(**members)), 201)


async def trigger(world: World, job_id: str = "j", query: str = "", **options: Any) -> Any:
    """One execution now; what goes out by itself has gone out."""
    started = data_of(await world.client.post(f"/jobs/{job_id}/trigger{query}", **options))
    await world.settle()
    return started


async def run(world: World, job_id: str = "j", **options: Any) -> dict[str, Any]:
    """One execution, to its end."""
    return await world.ended((await trigger(world, job_id, **options))["executionId"])


async def listed(client: httpx.AsyncClient, query: str = "") -> list[int]:
    """The numbers of the job's executions in a list."""
    return [one["executeNumber"] for one in data_of(await client.get(f"/executions?{query}"))["items"]]


async def test_an_execution_is_told_in_full(world: World) -> None:
    """Attempts, steps, exchanges with masked headers, a log in order of time (SPEC sections 10, 14)."""
    step = {
        "url": "service://jobswork/run?x=1",
        "headers": {"Authorization": "Bearer hidden-one", "X-Own": "shown"},
        "body": {"a": 1},
    }
    retry = [{"errorEquals": "503", "intervalSeconds": 2}]
    await create(
        world.client, request=[step], retry=retry, notification=[{"url": "service://jobsclient/told"}]
    )
    world.target.answers("/run", Reply(503, {"why": "busy"}, {"set-cookie": "hidden-two"}))
    started = await trigger(world)
    await world.advance(2)
    told = await world.ended(started["executionId"])
    assert "hidden" not in str(told)
    assert world.target.at("/run")[0].headers["authorization"] == "Bearer hidden-one"
    first, second = told["attempts"]
    assert (first["error"], second["error"], told["attemptCount"]) == ("503", None, 2)
    step_run = first["steps"][0]
    assert (step_run["status"], step_run["method"], step_run["index"]) == (503, "POST", 0)
    assert step_run["url"].endswith("/run?x=1")
    assert step_run["request"]["headers"]["X-Own"] == "shown"
    assert step_run["response"]["body"] == '{"why": "busy"}'
    assert [one["event"] for one in told["notifications"]] == ["503", "200", "finalSucceed"]
    assert {one["state"] for one in told["notifications"]} <= {"delivered", "pending"}
    log = data_of(await world.client.get(f"/executions/{started['executionId']}/log"))["items"]
    assert [line["at"] for line in log] == sorted(line["at"] for line in log)
    assert len(log) >= 5
    paged, cursor = [], ""
    while cursor is not None:
        page = data_of(await world.client.get(f"/executions/{started['executionId']}/log?limit=2{cursor}"))
        paged += page["items"]
        cursor = None if page["nextCursor"] is None else f"&cursor={page['nextCursor']}"
    assert paged == log


async def test_a_replay_is_replayed_from_its_step(world: World) -> None:
    """Earlier responses come from what it repeats, and stand in the log by that name (SPEC section 10)."""
    steps = [{"url": f"service://jobswork/{name}", "respEnvName": name} for name in ("one", "two")]
    steps.append({"url": "service://jobswork/three", "body": "${one.v} ${two.v}"})
    await create(world.client, request=steps)
    for name, value in (("one", 1), ("two", 2)):
        world.target.answers(f"/{name}", Reply(200, {"v": value}))
    world.target.answers("/three", *(Reply(500),) * 2, Reply(200))
    told = await run(world)
    for state in ("terminated", "succeeded"):
        path = f"/executions/{told['executionId']}/replay"
        started = data_of(await world.client.post(path, json={"fromStep": 2}))
        await world.settle()
        log = data_of(await world.client.get(f"/executions/{started['executionId']}/log"))["items"]
        assert f"of {told['executionId']} from step 2" in {line["text"] for line in log}
        told = await world.ended(started["executionId"])
        assert (told["state"], told["triggeredBy"]) == (state, "replay")
    assert [seen.body for seen in world.target.at("/three")] == [b'"1 2"'] * 3
    assert (len(world.target.at("/one")), len(world.target.at("/two"))) == (1, 1)


async def test_what_a_debug_switch_holds_is_released() -> None:
    """`debug.hold_triggered` leaves executions `enqueued` until released (SPEC section 13)."""
    async with running(debug={"hold_triggered": True}) as world:
        await create(world.client)
        held = await trigger(world)
        assert (held["state"], world.target.seen) == ("enqueued", [])
        path = f"/executions/{held['executionId']}/release"
        data_of(await world.client.post(path))
        assert (await world.ended(held["executionId"]))["state"] == "succeeded"
        assert len(world.target.seen) == 1
        assert (await world.client.post(path)).status_code == 409
        assert (await world.client.post("/executions/none-1/release")).status_code == 404


async def test_firings_that_a_debug_switch_holds_are_in_the_ledger() -> None:
    """`debug.hold_recurring` records firings as skipped, reason `debug` (SPEC section 13)."""
    async with running(debug={"hold_recurring": True}) as world:
        await create(world.client, timer={"dueTime": "1s", "period": "1s"})
        await world.advance(2.5)
        assert world.target.seen == []
        assert [(one["outcome"], one["reason"]) for one in await ledger(world, 2)] == [
            ("skipped", "debug")
        ] * 2


async def ledger(world: World, count: int) -> list[dict[str, Any]]:
    """The firings of the job, once there are so many, the earliest planned one first."""

    async def read() -> list[dict[str, Any]] | None:
        items: list[dict[str, Any]] = data_of(await world.client.get("/jobs/j/firings"))["items"]
        return items if len(items) >= count else None

    found: list[dict[str, Any]] = await world.until(read)
    return sorted(found, key=lambda one: str(one["plannedAt"]))


async def deliveries(world: World, state: str) -> list[dict[str, Any]]:
    """The deliveries in a state, once there is one."""

    async def read() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = data_of(await world.client.get(f"/deliveries?state={state}"))["items"]
        return items

    found: list[dict[str, Any]] = await world.until(read)
    return found


@pytest.mark.parametrize(("guarantee", "state"), [("none", "failed"), ("outbox", "outbox")])
async def test_a_delivery_that_failed_is_resent_or_dismissed(
    world: World, guarantee: str, state: str
) -> None:
    """Listed with its tries, resent, dismissed; 404 and 409 otherwise (SPEC sections 7, 10)."""
    entry = {"url": "service://jobsclient/told", "stateEquals": "finalSucceed", "guarantee": guarantee}
    await create(world.client, notification=[entry])
    world.target.answers("/told", *[500] * 4)
    await world.advance(5)  # no try falls on a minute, when the outbox is sent again
    await run(world)
    await world.advance(62)
    failed = (await deliveries(world, state))[0]
    assert [one.at - START for one in world.target.at("/told")] == [5_000, 25_000, 45_000, 65_000]
    assert (failed["event"], failed["jobId"], len(failed["attempts"])) == ("finalSucceed", "j", 4)
    path = f"/deliveries/{failed['deliveryId']}"
    data_of(await world.client.post(f"{path}/resend"))
    assert len(world.target.at("/told")) == 5
    assert (await deliveries(world, "delivered"))[0]["deliveryId"] == failed["deliveryId"]
    late = await world.client.post(f"{path}/resend")
    assert (late.status_code, pointers(late)[0]) == (409, ("/deliveryId", "conflict"))
    world.target.answers("/told", *[500] * 4)
    await run(world)
    await world.advance(62)
    second = (await deliveries(world, state))[0]
    data_of(await world.client.post(f"/deliveries/{second['deliveryId']}/dismiss"))
    assert (await deliveries(world, "dismissed"))[0]["deliveryId"] == second["deliveryId"]
    assert (await world.client.post("/deliveries/none/dismiss")).status_code == 404


async def test_figures_count_what_happened(world: World) -> None:
    """`GET /stats`: running, waiting, outcomes of the last hour, by minute (SPEC section 10)."""
    await create(world.client, overlapPolicy="queue")
    await create(world.client, "t", timer={"dueTime": "10s", "period": "0s"})
    world.target.answers("/run", 200, 500, HELD)
    for _ in range(4):
        await trigger(world)

    async def read() -> Any:
        figures = data_of(await world.client.get("/stats"))
        by_state = figures["byState"]
        return figures if (by_state["succeeded"], by_state["terminated"]) == (1, 1) else None

    figures = await world.until(read)
    assert (figures["running"], figures["waiting"], figures["due"]) == (1, 1, 0)
    assert {"p50", "p99", "max"} <= figures["lateness"].keys()
    assert sum(minute["total"] for minute in figures["perMinute"]) >= 2


async def test_the_scheduler_s_own_work_is_not_among_the_users_(world: World) -> None:
    """System jobs show where they are asked for: lists and figures are of the others (SPEC section 11)."""
    await create(world.client)
    await world.advance(130)
    await run(world)
    assert await listed(world.client, "jobId=outbox") == [2, 1]
    assert [one["jobId"] for one in data_of(await world.client.get("/executions"))["items"]] == ["j"]
    figures = data_of(await world.client.get("/stats"))
    assert figures["byState"]["succeeded"] == 1
    assert sum(minute["total"] for minute in figures["perMinute"]) == 1


async def attempt(world: World) -> dict[str, str]:
    """A trial that has begun."""
    answer = await world.client.post(
        "/definitions/try", json={"definition": definition(), "params": {"a": 1}}
    )
    found: dict[str, str] = data_of(answer, 201)
    return found


UNTIL_GONE = 11 * 60


async def is_gone(world: World, trial: dict[str, str]) -> bool:
    """Whether nothing is left but the execution."""
    jobs = data_of(await world.client.get("/jobs?system=true&limit=500"))["items"]
    destroyed = data_of(await world.client.get("/jobs?system=true&state=destroyed"))["items"]
    ids = [one["jobId"] for one in (*jobs, *destroyed)]
    job = await world.client.get(f"/jobs/{trial['jobId']}")
    assert data_of(await world.client.get(f"/executions/{trial['executionId']}"))["state"] == "succeeded"
    return job.status_code == 404 and trial["jobId"] not in ids


async def test_a_trial_goes_by_itself(tmp_path: Path) -> None:
    """Its execution is listed, counted and found by `triggeredBy`; soon after ten minutes it is gone.

    That is read as before; no list of jobs had the trial.
    """
    async with running(store={"data": str(tmp_path)}) as world:
        trial = await attempt(world)
        assert (await world.ended(trial["executionId"]))["state"] == "succeeded"
        assert data_of(await world.client.get("/jobs"))["items"] == []
        assert (await world.client.post("/jobs/mine", json=definition())).is_success
        manual = data_of(await world.client.post("/jobs/mine/trigger", json={}))
        await world.ended(manual["executionId"])

        async def listed(query: str) -> list[str]:
            items = data_of(await world.client.get(f"/executions{query}"))["items"]
            return sorted(one["jobId"] for one in items)

        assert await listed("") == ["mine", trial["jobId"]]
        assert await listed("?triggeredBy=trial") == [trial["jobId"]]
        assert await listed("?triggeredBy=manual") == ["mine"]
        assert data_of(await world.client.get("/counts/executions"))["total"]["value"] == 2
        log = data_of(await world.client.get(f"/executions/{trial['executionId']}/log"))
        assert "triggered as a trial" in str(log)
        assert not await is_gone(world, trial)
        await world.advance(UNTIL_GONE)
        assert await is_gone(world, trial)


NAMES = ("作业", "状态é", "𠀀𠀁", "😀_1")


@pytest.mark.parametrize("name", NAMES)
async def test_a_job_reads_members_of_such_names_everywhere(world: World, name: str) -> None:
    """In a URL, its query, headers, a body, filters, checkUrl, a notification, a preview; bare names too."""
    target, expression = world.target, f"${{$.{name}.{name}}}"
    rows = f"${{$.{name}.rows[?@.{name} == $.{name}.{name}].id}}|json"
    steps: list[dict[str, Any]] = [
        {"url": f"service://jobswork/{expression}?{name}={expression}", "headers": {"X-Name": expression}},
        {
            "url": "service://jobswork/body",
            "body": {name: expression, "rows": rows, "bare": f"${{{name}.{name}}}"},
        },
    ]
    given = {name: {name: "v", "rows": [{name: "v", "id": 7}, {name: "w", "id": 8}]}}
    for path in ("/v", "/body", "/check"):
        target.always(path, Reply(body=given | {"status": "succeed"}))
    job = definition(
        request=steps,
        checkUrl=f"service://jobswork/check/{expression}",
        notification=[{"url": f"http://127.0.0.1:{target.port}/told/{expression}", "body": [expression]}],
    )
    posted = await world.client.post("/jobs/job", json=job | {"async": True})
    assert posted.status_code == 201, posted.text
    fired = await world.client.post("/jobs/job/trigger", json=given)
    await world.advance(5)
    assert (await world.ended(fired.json()["data"]["executionId"]))["state"] == "succeeded"
    (first,), (second,) = target.at("/v"), target.at("/body")
    assert (first.headers["x-name"], {unquote(key): value for key, value in first.query.items()}) == (
        "v",
        {name: "v"},
    )
    assert second.json == {name: "v", "rows": [7], "bare": "v"}
    assert [one.path for one in target.at("/check")] == ["/check/v"]
    assert {(one.path, str(one.json)) for one in target.at("/told")} == {("/told/v", "['v']")}
    asked = {"template": f"${{$.{name}[?@.{name} > 1].{name}}}|json", "root": {name: [{name: 1}, {name: 2}]}}
    shown = await world.client.post("/templates/preview", json=asked)
    assert shown.json()["data"] == {"value": [2]}


async def test_an_outcome_is_kept_for_a_time_of_its_own() -> None:
    """By `history.retain_days_by_outcome` (SPEC section 12)."""
    kept = {"retain_days": 1e-5, "retain_days_by_outcome": {"failed": 1}, "retain_count": 0}
    async with running(history=kept) as world:
        await create(world.client)
        world.target.answers("/run", Reply(404), Reply(200))
        assert [(await run(world))["state"] for _ in range(2)] == ["terminated", "succeeded"]
        await world.advance(3)
        await trigger(world, "clean")
        assert await listed(world.client, "jobId=j") == [1]
