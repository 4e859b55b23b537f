"""client.executions against the whole service (SPEC section 10)."""

import pytest

from client_sdk import Client
from client_sdk.errors import Conflict, WaitTimedOut
from tests.wire.service import World, definition


async def test_waiting_has_an_end(world: World, client: Client) -> None:
    """What does not end in time goes on; what does not exist is not waited for."""
    await client.jobs.create(definition(), job_id="one")
    later = await client.jobs.trigger("one", delay_seconds=60)
    with pytest.raises(WaitTimedOut, match="is scheduled after 0 s; it continues"):
        await client.wait_for(later, timeout=0)
    assert (await client.executions.cancel(later, reason="changed my mind")).state == "cancelled"
    assert (await client.wait_for(later, timeout=20)).reason == "changed my mind"
    with pytest.raises(Conflict):
        await client.executions.cancel(later)


async def test_executions_are_found_by_their_outcome(client: Client) -> None:
    """Of all jobs and of one; `failed` is failed for good."""
    await client.jobs.create(definition(), job_id="one")
    later = await client.jobs.trigger("one", delay_seconds=60)
    await client.executions.cancel(later)
    for outcome, numbers in {"cancelled": [1], "failed": [], "succeeded": [], "skipped": []}.items():
        found = client.executions.list(outcome=outcome)
        assert [one.execute_number async for one in found] == numbers
        found = client.jobs.executions("one", outcome=outcome)
        assert [one.execute_number async for one in found] == numbers


async def test_an_execution_is_replayed(client: Client) -> None:
    """With edited parameters."""
    await client.jobs.create(definition(), job_id="one")
    first = await client.wait_for(await client.jobs.trigger("one", {"size": 1}), timeout=20)
    again = await client.wait_for(await client.executions.replay(first, params={"size": 2}), timeout=20)
    assert (again.triggered_by, again.params) == ("replay", {"size": 2})
    assert [one.execute_number async for one in client.executions.list(job_id="one")] == [2, 1]
