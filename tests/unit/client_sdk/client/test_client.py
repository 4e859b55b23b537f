"""The client and its blocking face, against the whole service (SPEC section 16)."""

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Invalid, Unauthorized
from client_sdk.models import JobDefinition, RequestStep, Timer
from tests.rows import each_row
from tests.unit.client_sdk.lines import NewerLine
from tests.wire.service import SERVED, World, definition, running


async def test_a_job_is_made_fired_and_waited_for(client: Client) -> None:
    """From its definition as a model to its execution in full; its creator is who posts it."""
    made = await client.jobs.create(
        JobDefinition(
            job_id="report",
            job_name="Report",
            timer=Timer(period="external"),
            request=[RequestStep(url="service://jobswork/run")],
        )
    )
    assert (made.state, made.kind, made.warnings) == ("active", "external", [])
    assert made.definition["request"] == [{"url": "service://jobswork/run"}]
    assert made.creator == made.definition["creatorName"] != ""
    fired = await client.jobs.trigger("report", {"size": 3})
    ended = await client.wait_for(fired, timeout=20)
    assert (ended.state, ended.params, ended.execute_number) == ("succeeded", {"size": 3}, 1)
    assert [step.status for attempt in ended.attempts for step in attempt.steps] == [200]
    assert [line.kind async for line in client.executions.log(ended)]


async def test_the_key_is_the_caller_s_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an argument; nothing is read from the environment."""
    monkeypatch.setenv("PUNCTUAL_KEY", "right-and-long-enough")
    async with running(server={"key": "right-and-long-enough"}) as world:
        transport = httpx.ASGITransport(world.service.api)
        async with Client(SERVED, transport=transport) as client:
            with pytest.raises(Unauthorized) as caught:
                await client.jobs.get("one")
            assert caught.value.detail == "a key is needed: send 'Authorization: Bearer KEY'"
            assert str(caught.value) == (
                "401: a key is needed: send 'Authorization: Bearer KEY'; give it as Client(url, key=…): the "
                "scheduler's setting server.key, or PUNCTUAL_SERVER__KEY"
            )
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


@each_row("name", ["", "a/b", "-x", "x" * 129, "é", "a\n"])
def test_a_name_of_no_service_is_refused_at_once(name: str) -> None:
    """Nothing is sent."""
    with pytest.raises(ValueError, match="is no name of a service"):
        Client(SERVED, service=name)
