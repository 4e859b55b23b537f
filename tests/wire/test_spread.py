"""`broadcast` and `shard` over real instances: one, three, none; failing, hanging, leaving
(SPEC section 13)."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.rows import each_row
from tests.wire.service import World, data_of, definition, running
from tests.wire.target import HELD, Reply, Seen, Target

RUN = "/run"
STEP = {
    "url": f"service://shop{RUN}",
    "body": {"index": "${schedulingShardIndex}|json", "total": "${schedulingShardTotal}|json"},
}
ROUTES = ["broadcast", "shard"]
DRAINING = Reply(503, headers={"X-Instance-State": "draining"})


@asynccontextmanager
async def shop(names: str, **settings: Any) -> AsyncIterator[World]:
    """A service whose instances are servers of their own; each says who it is."""
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(running(**settings))
        for name in names:
            target = await stack.enter_async_context(Target(lambda: world.clock.now().wall))
            target.always(RUN, lambda _, name=name: Reply(200, {"by": name}))  # type: ignore[misc]
            world.instances[name] = target
            path = f"/services/shop/instances/{name}"
            data_of(await world.client.put(path, json={"address": target.url}), 201)
        yield world


async def run(world: World, route: str, **members: Any) -> str:
    """One execution of a job whose step goes to all of the shop; its id."""
    step = STEP | {"route": route} | members.pop("step", {})
    data_of(await world.client.post("/jobs/j", json=definition(request=[step], **members)), 201)
    started = data_of(await world.client.post("/jobs/j/trigger"))
    await world.settle()
    return str(started["executionId"])


def calls(world: World) -> dict[str, list[Seen]]:
    """What each instance was asked."""
    return {name: target.at(RUN) for name, target in world.instances.items()}


def parts_of(attempt: dict[str, Any]) -> dict[str, str | None]:
    """The error of each part by its instance, the latest of each."""
    return {one["instance"]: one["error"] for one in attempt["steps"] if one["part"] is not None}


def whole(attempt: dict[str, Any]) -> Any:
    """The step's response as one."""
    (step,) = [one for one in attempt["steps"] if one["part"] is None]
    return json.loads(step["response"]["body"])


@each_row("qos", [0, 1])
@each_row("names", ["a", "abc"])
@each_row("route", ROUTES)
async def test_every_instance_gets_its_part(route: str, names: str, qos: int) -> None:
    """One execution; each shard knows its place and the total; the response is the array of theirs."""
    async with shop(names) as world:
        ended = await world.ended(await run(world, route, qos=qos))
        asked = [seen.json for one in calls(world).values() for seen in one]
        keys = {seen.headers["idempotency-key"] for one in calls(world).values() for seen in one}
    assert (ended["state"], ended["attemptCount"]) == ("succeeded", 1)
    places = sorted((one["index"], one["total"]) for one in asked)
    assert places == [(at, len(names)) if route == "shard" else (0, 1) for at in range(len(names))]
    assert len(keys) == len(names)
    assert parts_of(ended["attempts"][0]) == dict.fromkeys(names)
    assert [one["by"] for one in whole(ended["attempts"][0])] == list(names)


@each_row("route", ROUTES)
async def test_one_drains_while_it_is_called(route: str) -> None:
    """It costs no attempt: its shard goes to another one, a broadcast leaves it out; then it gets nothing."""
    async with shop("abc") as world:
        world.instances["b"].always(RUN, DRAINING)
        ended = await world.ended(await run(world, route))
        shown = parts_of(ended["attempts"][0])
        asked = sum(map(len, calls(world).values()))
        again = data_of(await world.client.post("/jobs/j/trigger"))
        second = await world.ended(again["executionId"])
        assert len(calls(world)["b"]) == 1
    assert (ended["state"], ended["attemptCount"]) == ("succeeded", 1)
    assert {name for name, error in shown.items() if error is None} == {"a", "c"}
    assert asked == (4 if route == "shard" else 3)
    assert (second["state"], set(parts_of(second["attempts"][0]))) == ("succeeded", {"a", "c"})


@each_row("route", ROUTES)
async def test_one_deregisters_while_it_works(route: str) -> None:
    """What it was given it may end, and its part counts; the next execution does not know it any more."""
    async with shop("abc") as world:
        world.instances["b"].answers(RUN, HELD)
        execution = await run(world, route, timeoutSeconds=30)
        data_of(await world.client.delete("/services/shop/instances/b"))
        await world.settle()
        assert data_of(await world.client.get(f"/executions/{execution}"))["endedAt"] is None
        world.instances["b"].release()
        ended = await world.ended(execution)
        again = data_of(await world.client.post("/jobs/j/trigger"))
        second = await world.ended(again["executionId"])
    assert (ended["state"], set(parts_of(ended["attempts"][0]))) == ("succeeded", set("abc"))
    assert (second["state"], set(parts_of(second["attempts"][0]))) == ("succeeded", set("ac"))


@each_row(("said", "state"), [("succeed", "succeeded"), ("failed", "terminated")])
@each_row("route", ROUTES)
async def test_feedback_names_its_part(route: str, said: str, state: str) -> None:
    """Each part of an asynchronous job reports for itself; all must have succeeded (`&shard=i`)."""
    async with shop("abc") as world:
        step = {"headers": {"X-Feedback": "${schedulingFeedbackUrl}"}}
        execution = await run(world, route, step=step, **{"async": True})
        told = [one.headers["x-feedback"] for seen in calls(world).values() for one in seen]
        urls = {int(one.rpartition("&shard=")[2]): one for one in told}
        for index, word in ((2, "succeed"), (0, "succeed"), (1, said)):
            assert data_of(await world.client.get(f"/executions/{execution}"))["endedAt"] is None
            url = urlsplit(urls[index])
            body = {"status": word, "error": "E1", "data": index}
            data_of(await world.client.post(f"{url.path}?{url.query}", json=body))
            await world.settle()
            data_of(await world.client.post(f"{url.path}?{url.query}", json=body))  # a repetition
        ended = await world.ended(execution)
        body = {"status": "succeed", "error": "E1", "data": 0}
        for index, status in ((0, 200), (1, 409), (2, 409)):
            url = urlsplit(urls[index])
            answer = await world.client.post(f"{url.path}?{url.query}", json=body)
            assert answer.status_code == status
    assert (ended["state"], ended["error"]) == (state, None if said == "succeed" else "partial")
