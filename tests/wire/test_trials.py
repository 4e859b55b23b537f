"""Trials of definitions go by themselves within eleven minutes, also after a restart (SPEC section 10)."""

from pathlib import Path

from tests.wire.service import World, data_of, definition, running

UNTIL_GONE = 11 * 60


async def attempt(world: World) -> dict[str, str]:
    """A trial that has begun."""
    answer = await world.client.post(
        "/definitions/try", json={"definition": definition(), "params": {"a": 1}}
    )
    found: dict[str, str] = data_of(answer, 201)
    return found


async def is_gone(world: World, trial: dict[str, str]) -> bool:
    """Whether nothing is left but the execution."""
    jobs = data_of(await world.client.get("/jobs?system=true&limit=500"))["items"]
    destroyed = data_of(await world.client.get("/jobs?system=true&state=destroyed"))["items"]
    ids = [one["jobId"] for one in (*jobs, *destroyed)]
    job = await world.client.get(f"/jobs/{trial['jobId']}")
    assert data_of(await world.client.get(f"/executions/{trial['executionId']}"))["state"] == "succeeded"
    return job.status_code == 404 and trial["jobId"] not in ids


async def test_a_trial_goes_by_itself(tmp_path: Path) -> None:
    """Not much later than its ten minutes; its execution is read as before, no list of jobs had it."""
    async with running(store={"data": str(tmp_path)}) as world:
        trial = await attempt(world)
        assert (await world.ended(trial["executionId"]))["state"] == "succeeded"
        assert data_of(await world.client.get("/jobs"))["items"] == []
        assert not await is_gone(world, trial)
        await world.advance(UNTIL_GONE)
        assert await is_gone(world, trial)


async def test_executions_of_trials_are_labelled(tmp_path: Path) -> None:
    """They are listed and counted with all others; by `triggeredBy` they are found, or left out."""
    async with running(store={"data": str(tmp_path)}) as world:
        trial = await attempt(world)
        await world.ended(trial["executionId"])
        assert (await world.client.post("/jobs/mine", json=definition())).is_success
        manual = data_of(await world.client.post("/jobs/mine/trigger", json={}))
        await world.ended(manual["executionId"])

        async def listed(query: str) -> list[str]:
            items = data_of(await world.client.get(f"/executions{query}"))["items"]
            return sorted(one["jobId"] for one in items)

        assert await listed("") == ["mine", trial["jobId"]]
        assert await listed("?triggeredBy=trial") == [trial["jobId"]]
        assert await listed("?triggeredBy=manual") == ["mine"]
        assert data_of(await world.client.get("/counts/executions"))["total"]["value"] == 2
        log = data_of(await world.client.get(f"/executions/{trial['executionId']}/log"))
        assert "triggered as a trial" in str(log)


async def test_a_restart_leaves_no_trial(tmp_path: Path) -> None:
    """What ended before the restart, and what goes on after it."""
    async with running(store={"data": str(tmp_path)}) as world:
        ended = await attempt(world)
        await world.ended(ended["executionId"])
        open_ = await attempt(world)
    async with running(store={"data": str(tmp_path)}) as world:
        await world.ended(open_["executionId"])
        await world.advance(UNTIL_GONE)
        assert await is_gone(world, ended)
        assert await is_gone(world, open_)
