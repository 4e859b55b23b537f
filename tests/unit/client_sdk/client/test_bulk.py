"""client.bulk against the whole service (SPEC section 10)."""

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Absent, Invalid
from tests.wire.service import SERVED, World, definition


async def test_many_jobs_are_paused_and_triggered(client: Client) -> None:
    """First counted, then done, then reported; a key makes a trigger count once."""
    for name in ("one", "two", "three"):
        await client.jobs.create(definition(labels={"team": "ops"}), job_id=name)
    dry = await client.bulk.jobs("pause", where={"label": "team:ops"}, dry_run=True)
    assert (dry.count, dry.first, dry.operation) == (3, ["one", "three", "two"], None)
    done = await client.bulk.jobs("pause", ["one", "nobody"])
    assert done.operation is not None
    ended = await client.bulk.wait_for(done.operation, timeout=10)
    assert (ended.state, ended.succeeded, ended.failed) == ("done", 1, 1)
    assert (ended.problems[0].job_id, ended.problems[0].problem.status) == ("nobody", 404)
    assert [job.job_id async for job in client.jobs.list(state="paused")] == ["one"]
    first = await client.bulk.jobs("trigger", ["two"], params={"size": 3}, idempotency_key="k")
    again = await client.bulk.jobs("trigger", ["two"], params={"size": 3}, idempotency_key="k")
    assert first == again
    assert first.operation is not None
    started = first.operation.started[0]
    assert (await client.executions.get(started.execution_id)).job_id == "two"
    assert await client.bulk.cancel(first.operation) == await client.bulk.get(first.operation)
    await client.bulk.jobs("label", where={}, labels={"team": None, "zone": "eu"})
    assert (await client.jobs.get("three")).labels == {"zone": "eu"}


async def test_what_cannot_be_is_refused(client: Client) -> None:
    """By the service, or before anything is sent."""
    with pytest.raises(Invalid):
        await client.bulk.jobs("pause")
    with pytest.raises(TypeError, match="give a list"):
        await client.bulk.jobs("pause", "one")
    with pytest.raises(Absent):
        await client.bulk.get("nothing")
    # An empty list of ids is not all
    await client.jobs.create(definition(), job_id="one")
    assert (await client.bulk.jobs("destroy", [])).count == 0
    assert (await client.bulk.executions("replay", [])).count == 0
    assert (await client.jobs.get("one")).job_id == "one"


@pytest.mark.parametrize("value", [None, [], (), ""], ids=repr)
async def test_an_empty_filter_is_not_all(client: Client, value: object) -> None:
    """Of a list that a program built and left empty: nothing is sent."""
    await client.jobs.create(definition(), job_id="one")
    with pytest.raises(ValueError, match="the filter label is"):
        await client.bulk.jobs("destroy", where={"label": value})
    with pytest.raises(ValueError, match="the filter jobId is"):
        await client.bulk.executions("replay", where={"jobId": value})
    assert (await client.jobs.get("one")).job_id == "one"


class Interrupting(httpx.AsyncBaseTransport):
    """Passes calls on; the operation is said to be interrupted by the first `times` reads."""

    def __init__(self, world: World, times: int) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self._next = httpx.ASGITransport(world.service.api)
        self._times = times

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.asked.append((request.headers["Idempotency-Key"], await request.aread()))
        answer = await self._next.handle_async_request(request)
        if request.method == "POST" or not self._times:
            return answer
        self._times -= 1
        body = (await answer.aread()).replace(b'"state":"done"', b'"state":"interrupted"')
        return httpx.Response(200, content=body)


@pytest.mark.parametrize(("times", "rounds", "state"), [(2, 2, "done"), (99, 10, "interrupted")])
async def test_what_is_interrupted_goes_on_under_its_key(
    world: World, client: Client, times: int, rounds: int, state: str
) -> None:
    """A key of its own, which nobody had to give; at most ten times. One that is named is only awaited."""
    await client.jobs.create(definition(), job_id="one")
    transport = Interrupting(world, times)
    async with Client(SERVED, transport=transport) as other:
        begun = await other.bulk.jobs("trigger", ["one"])
        ended = await other.bulk.wait_for(begun, timeout=10)
        assert (ended.state, len(transport.asked)) == (state, 1 + rounds)
        assert transport.asked == [transport.asked[0]] * (1 + rounds)
        assert begun.operation is not None
        await other.bulk.wait_for(begun.operation)
        assert len(transport.asked) == 1 + rounds
        with pytest.raises(ValueError, match="a dry run"):
            await other.bulk.wait_for(await other.bulk.jobs("trigger", ["one"], dry_run=True))
    assert (await client.jobs.get("one")).execute_number == 1
