"""client.jobs against the whole service (SPEC section 10)."""

from datetime import UTC, datetime, timedelta

import pytest

from client_sdk import Client, job
from client_sdk.errors import Absent, Conflict, Outdated
from tests.wire.service import START, World, definition


async def test_warnings_of_a_definition_are_told(client: Client) -> None:
    """They stand beside the job."""
    made = await client.jobs.create(
        definition(timer={"dueTime": "1s", "period": "0 0 * * * ?"}), job_id="one"
    )
    assert [one.code for one in made.warnings]


async def test_a_declared_job_is_answered_with_who_registers_it(client: Client) -> None:
    """A declaration is no definition; its service posts it."""

    @job(job_id="import")
    def fetch(size: int = 1) -> int:
        return size

    with pytest.raises(TypeError) as caught:
        await client.jobs.create(fetch)  # type: ignore[arg-type]
    said = "definition is fetch, a job declared with @job: its service registers it, Service(jobs=[fetch])"
    assert said in str(caught.value)


async def test_a_job_is_paused_changed_and_destroyed(client: Client) -> None:
    """With the revision as a guard against others."""
    await client.jobs.create(definition(timer={"period": "5m", "dueTime": "5m"}), job_id="one")
    assert (await client.jobs.pause("one", drain=True)).state == "paused"
    assert (await client.jobs.resume("one", misfire="skip")).missed == 0
    changed = await client.jobs.update("one", definition(jobName="two"), revision=1)
    assert (changed.revision, changed.job_name, changed.disabled) == (2, "two", False)
    with pytest.raises(Outdated):
        await client.jobs.update("one", definition(jobName="three"), revision=1)
    assert [one.revision async for one in client.jobs.revisions("one")] == [1, 2]
    assert (await client.jobs.disable("one")).disabled
    with pytest.raises(Conflict) as refused:
        await client.jobs.trigger("one")
    assert refused.value.errors[0].code == "disabled"
    assert not (await client.jobs.enable("one")).disabled
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
