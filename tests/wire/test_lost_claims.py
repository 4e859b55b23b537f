"""Claims whose answer nobody hears; reads after writes; who gets which work (SPEC sections 10, 13)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from scheduler_service.domain.leases import Claim, Leased
from scheduler_service.ports.errors import StoreUncertain
from tests.rows import each_row
from tests.unit.persistence.servers import shared_urls
from tests.wire.service import World, data_of, definition, pointers, running
from tests.wire.target import HELD, Reply, Seen, Target

STEP = {"url": "queue://work", "leaseSeconds": 5, "unexpectedRetryDelaySeconds": 1}


class Late:
    """The real table; the answer to the next claim comes when it may, or never."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.written, self.may_answer = asyncio.Event(), asyncio.Event()
        self.is_uncertain = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def claim(self, claim: Claim) -> tuple[Leased, ...]:
        """Writes; then the answer."""
        found: tuple[Leased, ...] = await self._table.claim(claim)
        if not self.written.is_set():
            self.written.set()
            if self.is_uncertain:
                raise StoreUncertain("no answer")
            await self.may_answer.wait()
        return found


@asynccontextmanager
async def one_part(options: dict[str, Any] | None = None) -> AsyncIterator[tuple[World, Late]]:
    """A service in whose queue one part lies."""
    async with running() as world:
        queues: Any = world.service.services.queues
        late = queues._table = Late(queues._table)
        posted = definition(request=[STEP | (options or {})], timeoutSeconds=600)
        data_of(await world.client.post("/jobs/j", json=posted), 201)
        data_of(await world.client.post("/jobs/j/trigger"))
        await world.settle()
        yield world, late


async def claim(world: World, instance: str, wait: float = 0) -> Any:
    """What an instance is given."""
    asked = {"instanceId": instance, "waitSeconds": wait}
    return await world.client.post("/queues/work/claim", json=asked)


async def comes_back(world: World) -> None:
    """Nobody has it as long as the lease and the delay go; then somebody else."""
    await world.advance(5)
    assert data_of(await claim(world, "w2"))["items"] == []
    await world.advance(1)
    (item,) = data_of(await claim(world, "w2"))["items"]
    data_of(await world.client.post(f"/leases/{item['lease']}/complete", json={"status": "succeed"}))


async def test_what_is_given_to_one_that_has_hung_up_goes_to_the_next() -> None:
    """Though the claim was cut off between its write and its answer; no retry is spent on it."""
    async with one_part({"maxUnexpectedRetries": 0}) as (world, late):
        claiming = asyncio.ensure_future(claim(world, "w1"))
        await late.written.wait()
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        late.may_answer.set()
        await world.settle()
        (item,) = data_of(await claim(world, "w2"))["items"]
        data_of(await world.client.post(f"/leases/{item['lease']}/complete", json={"status": "succeed"}))


async def test_one_that_hung_up_in_the_moment_of_the_answer_gets_nothing() -> None:
    """The store has answered already when the service sees that the connection is closed."""
    async with one_part() as (world, late):
        late.may_answer.set()
        await ask_and_hang_up(world, late)
        await world.settle()
        assert len(data_of(await claim(world, "w2"))["items"]) == 1


async def ask_and_hang_up(world: World, late: Late) -> None:
    """A claim of `w1` whose connection ends when it was written."""
    has_sent = False

    async def receive() -> dict[str, Any]:
        nonlocal has_sent
        if not has_sent:
            has_sent = True
            return {"type": "http.request", "body": b'{"instanceId": "w1"}'}
        await late.written.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(f"nobody is there for {message}")

    path = "/queues/work/claim"
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope: Any = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1), "http_version": "1.1", "scheme": "http",
        "root_path": "",
    }  # fmt: skip
    await world.service.api(scope, receive, send)


async def test_a_claim_of_which_the_store_cannot_say_whether_it_was_written() -> None:
    """503 `unknown`; if it was, the part comes back all the same."""
    async with one_part() as (world, late):
        late.is_uncertain = True
        answer = await claim(world, "w1")
        assert (answer.status_code, pointers(answer)) == (503, [("", "unknown")])
        await comes_back(world)


postgres_url = shared_urls


@pytest.fixture(params=["sqlite", "postgresql"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A service with its history in either database."""
    is_shared = request.param == "postgresql"
    database = {"database": {"url": request.getfixturevalue("postgres_url")}} if is_shared else {}
    async with running(**database) as world:
        yield world


async def create(world: World, **members: Any) -> Any:
    """The job `j`."""
    return data_of(await world.client.post("/jobs/j", json=definition(**members)), 201)


async def trigger(world: World, query: str = "") -> str:
    """The id of a new execution of `j`."""
    started = data_of(await world.client.post(f"/jobs/j/trigger{query}"))
    execution_id: str = started["executionId"]
    return execution_id


async def get(world: World, path: str) -> Any:
    """`data` of a read that has no warning."""
    answer = await world.client.get(path)
    assert answer.json()["warnings"] == []
    return data_of(answer)


async def state_of(world: World, execution_id: str) -> list[Any]:
    """The state of the execution in each list that has it."""
    paths = ("/executions", "/executions?jobId=j", "/jobs/j/executions", "/main/execution?jobId=j")
    lists = [(await get(world, path))["items"] for path in paths]
    return [one["state"] for items in lists for one in items if one["executionId"] == execution_id]


async def test_a_trigger_is_in_every_list_at_once(world: World) -> None:
    """Ten times, with one read each, so that no other read has waited for it."""
    await create(world, overlapPolicy="allow")
    world.target.always("/run", HELD)
    for number in range(1, 11, 2):
        execution_id = await trigger(world)
        assert (await get(world, "/executions"))["items"][0]["executionId"] == execution_id, number
        execution_id = await trigger(world, "?delaySeconds=60")
        assert sum((await get(world, "/stats"))["byState"].values()) == number + 1
    for path in ("/jobs/j/executions", "/main/execution?jobId=j", "/executions?state=processing"):
        execution_id = await trigger(world)
        assert (await get(world, path))["items"][0]["executionId"] == execution_id, path
    execution_id = await trigger(world)
    assert (await get(world, f"/executions/{execution_id}"))["state"] == "processing"
    execution_id = await trigger(world)
    assert (await get(world, f"/executions/{execution_id}/log"))["items"][0]["kind"] == "created"


async def test_what_a_command_ends_is_ended_in_every_list(world: World) -> None:
    """Cancel, replay, pause, update and destroy."""
    await create(world, overlapPolicy="cancel_running")
    world.target.always("/run", HELD)
    first = await trigger(world)
    data_of(await world.client.post(f"/executions/{first}/cancel"))
    assert await state_of(world, first) == ["cancelled"] * 4
    second = data_of(await world.client.post(f"/executions/{first}/replay"))["executionId"]
    assert await state_of(world, second) == ["processing"] * 4
    third = await trigger(world)
    assert await state_of(world, second) == ["cancelled"] * 4
    data_of(await world.client.put("/jobs/j?active=0"))
    assert await state_of(world, third) == ["cancelled"] * 4
    fourth = await trigger(world, "?delaySeconds=60")
    assert await state_of(world, fourth) == ["scheduled"] * 4
    data_of(await world.client.post("/jobs/j/update", json=definition(timer=None, active=1)))
    assert (await get(world, "/executions"))["items"][0]["triggeredBy"] == "timer"
    data_of(await world.client.delete("/jobs/j"))
    assert await state_of(world, fourth) == ["cancelled"] * 4


async def test_a_report_is_in_the_execution_at_once(world: World) -> None:
    """Feedback that was answered 200 is in the execution and in its log; its delivery is in the list."""
    step = {"url": "service://jobswork/run", "body": {"told": "${schedulingFeedbackUrl}"}}
    notified = [{"url": "service://jobsclient/note", "stateEquals": "inprogress"}]
    await create(world, **{"async": True}, request=[step], notification=notified)
    execution_id = await trigger(world)
    await world.settle()
    url = world.target.at("/run")[0].json["told"]
    for number in range(1, 8, 3):
        data_of(await world.client.post(url, json={"progress": "1/9"}))
        log = (await get(world, f"/executions/{execution_id}/log"))["items"]
        assert [line["kind"] for line in log].count("feedback") == number
        data_of(await world.client.post(url, json={"progress": "2/9"}))
        assert len((await get(world, "/deliveries"))["items"]) == number + 1
        data_of(await world.client.post(url, json={"progress": "3/9"}))
        full = await get(world, f"/executions/{execution_id}")
        assert len(full["attempts"][0]["feedback"]) == len(full["notifications"]) == number + 2


async def test_what_a_job_says_of_a_firing_is_in_its_ledger(world: World) -> None:
    """`GET /jobs/{jobId}` is an answer too: what it says of a firing is in the lists afterwards."""
    await create(world, timer={"dueTime": "1s", "period": "1s"})
    for number in range(1, 4):
        await world.advance(1)
        latest = (await get(world, "/jobs/j"))["latestExecution"]
        assert (latest["executeNumber"], latest["state"]) == (number, "succeeded")
        items = (await get(world, "/jobs/j/firings"))["items"]
        assert [one["executionId"] for one in items][:1] == [latest["executionId"]]
        latest = (await get(world, "/jobs/j"))["latestExecution"]
        assert (await get(world, "/executions?state=succeeded"))["items"][0]["executeNumber"] == number


RUN = "/run"
SPREAD_STEP = {
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
    step = SPREAD_STEP | {"route": route} | members.pop("step", {})
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
