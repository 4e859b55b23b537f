"""What the API promises of executions, firings and deliveries, over the whole service (SPEC section 10)."""

from typing import Any

import httpx
import pytest

from tests.wire.service import START, World, data_of, definition, pointers
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
    """Attempts, steps, requests and responses with masked headers, a log in order of time
    (SPEC sections 10, 14)."""
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


async def test_what_is_planned_is_upcoming(world: World) -> None:
    """`GET /upcoming`: the firings of all jobs in order of time, in pages; paused ones have none."""
    await create(world.client, "a", timer={"dueTime": "10s", "period": "20s"})
    await create(world.client, "b", timer={"period": "0 * * * * ?"})
    await create(world.client, "p", timer={"dueTime": "10s", "period": "20s"}, active=0)
    query = "from=2026-01-01T00:00:00Z&to=2026-01-01T00:01:00Z"
    items = data_of(await world.client.get(f"/upcoming?{query}"))["items"]
    plan = [(one["jobId"], one["plannedAt"][14:19]) for one in items]
    assert plan == [("a", "00:10"), ("a", "00:30"), ("a", "00:50"), ("b", "01:00")]
    paged, cursor = [], ""
    while cursor is not None:
        page = data_of(await world.client.get(f"/upcoming?{query}&limit=1{cursor}"))
        paged += page["items"]
        cursor = None if page["nextCursor"] is None else f"&cursor={page['nextCursor']}"
    assert paged == items
    items = data_of(await world.client.get(f"/upcoming?{query}&perJob=1"))["items"]
    assert [(one["jobId"], one["plannedAt"][14:19]) for one in items] == [("a", "00:10"), ("b", "01:00")]
    items = data_of(await world.client.get(f"/upcoming?{query}&jobId=a&jobId=p&perJob=2"))["items"]
    assert [(one["jobId"], one["plannedAt"][14:19]) for one in items] == [("a", "00:10"), ("a", "00:30")]


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


async def test_the_outbox_is_sent_again_by_itself(world: World) -> None:
    """What stays in the outbox is re-sent by a system job until it is delivered (SPEC section 7)."""
    entry = {"url": "service://jobsclient/told", "stateEquals": "finalSucceed", "guarantee": "outbox"}
    await create(world.client, notification=[entry])
    world.target.answers("/told", *[500] * 5)
    await run(world)
    await world.advance(185)
    assert [one.at - START for one in world.target.at("/told")][:4] == [0, 20_000, 40_000, 60_000]
    assert len(world.target.at("/told")) == 6
    assert len({one.headers["idempotency-key"] for one in world.target.at("/told")}) == 1
    assert (await deliveries(world, "delivered"))[0]["event"] == "finalSucceed"


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
