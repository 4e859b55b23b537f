"""Why a job is paused, where it is read (SPEC sections 10, 11, 13)."""

from tests.wire.service import data_of, definition, running
from tests.wire.target import Reply


async def test_a_job_that_its_target_no_longer_knows_says_so() -> None:
    """410 with `X-Job-State: gone` pauses it; started again it is paused for no reason."""
    async with running() as world:
        world.target.answers("/run", Reply(410, headers={"X-Job-State": "gone"}))
        created = data_of(await world.client.post("/jobs/j", json=definition()), 201)
        assert created["pauseReason"] is None
        started = data_of(await world.client.post("/jobs/j/trigger", json={}))
        await world.ended(started["executionId"])
        found = data_of(await world.client.get("/jobs/j"))
        assert (found["state"], found["pauseReason"]) == ("paused", "gone")
        assert data_of(await world.client.put("/jobs/j?active=1"))["pauseReason"] is None
        assert data_of(await world.client.put("/jobs/j?active=0"))["pauseReason"] == "paused"
