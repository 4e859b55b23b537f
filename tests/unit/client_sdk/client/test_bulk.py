"""client.bulk against the whole service (SPEC section 10)."""

import pytest

from client_sdk import Client
from client_sdk.errors import Absent, Invalid
from tests.wire.service import definition

pytestmark = pytest.mark.anyio


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


async def test_many_executions_are_cancelled(client: Client) -> None:
    """By a filter those that have not ended."""
    await client.jobs.create(definition(), job_id="one")
    later = await client.jobs.trigger("one", delay_seconds=3600)
    done = await client.bulk.executions("cancel", where={"jobId": "one"}, reason="wrong input")
    assert done.operation is not None
    assert (done.count, done.operation.succeeded) == (1, 1)
    assert (await client.executions.get(later)).state == "cancelled"


async def test_what_cannot_be_is_refused(client: Client) -> None:
    """By the service, or before anything is sent."""
    with pytest.raises(Invalid):
        await client.bulk.jobs("pause")
    with pytest.raises(TypeError, match="give a list"):
        await client.bulk.jobs("pause", "one")
    with pytest.raises(Absent):
        await client.bulk.get("nothing")


@pytest.mark.parametrize("value", [None, [], (), ""], ids=repr)
async def test_an_empty_filter_is_not_all(client: Client, value: object) -> None:
    """Of a list that a program built and left empty: nothing is sent."""
    await client.jobs.create(definition(), job_id="one")
    with pytest.raises(ValueError, match="the filter label is"):
        await client.bulk.jobs("destroy", where={"label": value})
    with pytest.raises(ValueError, match="the filter jobId is"):
        await client.bulk.executions("replay", where={"jobId": value})
    assert (await client.jobs.get("one")).job_id == "one"


async def test_no_ids_select_nothing(client: Client) -> None:
    """An empty list of ids is not all."""
    await client.jobs.create(definition(), job_id="one")
    assert (await client.bulk.jobs("destroy", [])).count == 0
    assert (await client.bulk.executions("replay", [])).count == 0
    assert (await client.jobs.get("one")).job_id == "one"
