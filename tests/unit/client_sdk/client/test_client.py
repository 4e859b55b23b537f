"""The client and its blocking face, against the whole service (SPEC section 16)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from client_sdk import BlockingClient, Client
from client_sdk.errors import Absent, Conflict, Invalid, Outdated, SdkError, Unauthorized, WaitTimedOut
from client_sdk.models import JobDefinition, RequestStep, Timer
from tests.unit.client_sdk.lines import NewerLine, serving
from tests.wire.service import SERVED, START, World, definition, running

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A service that runs in memory, with its target."""
    async with running() as world:
        yield world


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client]:
    """A client of it."""
    async with Client(SERVED, transport=httpx.ASGITransport(world.service.api)) as client:
        yield client


async def test_a_job_is_made_fired_and_waited_for(client: Client) -> None:
    """From its definition as a model to its execution in full."""
    made = await client.jobs.create(
        JobDefinition(
            job_id="report",
            job_name="Report",
            creator="1",
            creator_name="one",
            timer=Timer(period="external"),
            request=[RequestStep(url="service://jobswork/run")],
        )
    )
    assert (made.state, made.kind, made.warnings) == ("active", "external", [])
    assert made.definition["request"] == [{"url": "service://jobswork/run"}]
    fired = await client.jobs.trigger("report", {"size": 3})
    ended = await client.wait_for(fired, timeout=20)
    assert (ended.state, ended.params, ended.execute_number) == ("succeeded", {"size": 3}, 1)
    assert [step.status for attempt in ended.attempts for step in attempt.steps] == [200]
    assert [line.kind async for line in client.executions.log(ended)]


async def test_warnings_of_a_definition_are_told(client: Client) -> None:
    """They stand beside the job."""
    made = await client.jobs.create(
        definition(timer={"dueTime": "1s", "period": "0 0 * * * ?"}), job_id="one"
    )
    assert [one.code for one in made.warnings]


async def test_waiting_has_an_end(world: World, client: Client) -> None:
    """What does not end in time goes on; what does not exist is not waited for."""
    await client.jobs.create(definition(), job_id="one")
    later = await client.jobs.trigger("one", delay_seconds=60)
    with pytest.raises(WaitTimedOut, match="is scheduled after 0 s; it goes on"):
        await client.wait_for(later, timeout=0)
    assert (await client.executions.cancel(later, reason="changed my mind")).state == "cancelled"
    assert (await client.wait_for(later, timeout=20)).reason == "changed my mind"
    with pytest.raises(Conflict):
        await client.executions.cancel(later)


async def test_lists_are_walked_page_by_page(client: Client) -> None:
    """Every item once, whatever the page's size; filters are the service's."""
    results = await client.jobs.create_many(
        [definition(jobId=f"job-{number:02}", labels={"odd": str(number % 2)}) for number in range(7)]
        + [{"jobId": "bad"}]
    )
    assert [one.status for one in results] == ["created"] * 7 + ["refused"]
    assert [job.job_id async for job in client.jobs.list(page=3)] == [f"job-{n:02}" for n in range(7)]
    odd = client.jobs.list(labels={"odd": "1"}, page=2, sort="-jobId")
    assert [job.job_id async for job in odd] == ["job-05", "job-03", "job-01"]


async def test_a_job_is_paused_changed_and_destroyed(client: Client) -> None:
    """With the revision as a guard against others."""
    await client.jobs.create(definition(timer={"period": "5m", "dueTime": "5m"}), job_id="one")
    assert (await client.jobs.pause("one", drain=True)).state == "paused"
    assert (await client.jobs.resume("one", misfire="skip")).missed == 0
    changed = await client.jobs.update("one", definition(jobName="two"), revision=1)
    assert (changed.revision, changed.job_name) == (2, "two")
    with pytest.raises(Outdated):
        await client.jobs.update("one", definition(jobName="three"), revision=1)
    assert [one.revision async for one in client.jobs.revisions("one")] == [1, 2]
    assert (await client.jobs.destroy("one")).state == "destroyed"
    with pytest.raises(Absent):
        await client.jobs.get("one")


async def test_a_moment_is_given_with_its_zone(world: World, client: Client) -> None:
    """A trigger for later; a naive moment is refused before anything is sent."""
    await client.jobs.create(definition(), job_id="one")
    at = datetime.fromtimestamp(START / 1000, UTC) + timedelta(hours=1)
    fired = await client.jobs.trigger("one", at=at)
    assert fired.state == "scheduled"
    assert (await client.executions.get(fired)).planned_at == at
    with pytest.raises(ValueError, match="no time zone"):
        await client.jobs.trigger("one", at=datetime(2030, 1, 1))


async def test_an_execution_is_replayed(client: Client) -> None:
    """With edited parameters."""
    await client.jobs.create(definition(), job_id="one")
    first = await client.wait_for(await client.jobs.trigger("one", {"size": 1}), timeout=20)
    again = await client.wait_for(await client.executions.replay(first, params={"size": 2}), timeout=20)
    assert (again.triggered_by, again.params) == ("replay", {"size": 2})
    assert [one.execute_number async for one in client.executions.list(job_id="one")] == [2, 1]


async def test_the_key_is_the_caller_s_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an argument; nothing is read from the environment."""
    monkeypatch.setenv("PUNCTUAL_KEY", "right-and-long-enough")
    async with running(server={"key": "right-and-long-enough"}) as world:
        transport = httpx.ASGITransport(world.service.api)
        async with Client(SERVED, transport=transport) as client:
            with pytest.raises(Unauthorized):
                await client.jobs.get("one")
        async with Client(SERVED, key="right-and-long-enough", transport=transport) as client:
            assert [job async for job in client.jobs.list()] == []


async def test_an_older_client_reads_a_newer_service(world: World) -> None:
    """Every answer says more than this version knows; requests that do are refused by the service."""
    newer = NewerLine(httpx.ASGITransport(world.service.api))
    async with Client(SERVED, transport=newer) as client:
        await client.jobs.create(definition(), job_id="one")
        ended = await client.wait_for(await client.jobs.trigger("one"), timeout=20)
        assert ended.state == "succeeded"
        assert (ended.attempts[0].steps[0].model_extra or {})["later"] == {"version": 2}
        assert [job.job_id async for job in client.jobs.list(page=1)] == ["one"]
        assert (await client.jobs.next("one")).kind == "external"
        with pytest.raises(Invalid) as caught:
            await client.jobs.create(definition(later=1), job_id="two")
        assert caught.value.codes == {"unknown_field"}


async def test_the_blocking_face_does_the_same(world: World) -> None:
    """Over a real socket, from a thread without an event loop."""
    async with serving(world.service.api) as url:
        await asyncio.to_thread(_use_blocking, url)


def _use_blocking(url: str) -> None:
    with BlockingClient(url) as client:
        client.jobs.create(definition(), job_id="one")
        fired = client.jobs.trigger("one", {"size": 3})
        assert client.wait_for(fired, timeout=20).state == "succeeded"
        assert [job.job_id for job in client.jobs.list(page=1)] == ["one"]
        assert [one.state for one in client.executions.list()] == ["succeeded"]
        with pytest.raises(Absent):
            client.jobs.get("two")
    assert not [one for one in threading.enumerate() if one.name == "punctual-client"]
    with pytest.raises(SdkError, match="closed"):
        client.jobs.get("one")
