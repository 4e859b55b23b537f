"""A definition is run once, without a job that stays (SPEC section 10)."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from scheduler_service.api.trials import MOST_LIVING
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import TRIALS
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import Event, Triggered
from scheduler_service.hosts.cleanup import TRIAL_KEPT_MS
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from tests.rows import each_row
from tests.unit.api.world import World, definition, pointers

KEY = {"Idempotency-Key": "k"}


async def attempt(client: httpx.AsyncClient, headers: dict[str, str] | None = None, **members: Any) -> Any:
    """`data` of a trial that has begun."""
    body = {"definition": definition(**members), "params": {"number": 4}}
    answer = await client.post("/definitions/try", json=body, headers=headers or {})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def ids(client: httpx.AsyncClient, **query: Any) -> list[str]:
    """The jobs of a list."""
    return [one["jobId"] for one in (await client.get("/jobs", params=query)).json()["data"]["items"]]


async def test_a_definition_is_run_once(client: httpx.AsyncClient, world: World) -> None:
    """With its parameters, whatever its timer, also disabled; reads follow it, and no list has it."""
    data = await attempt(client, jobId="a", timer={"period": "@daily"}, active=0, disabled=True)
    assert data["executeNumber"] == 1
    await world.answer_calls()
    execution = (await client.get(f"/executions/{data['executionId']}")).json()["data"]
    assert (execution["jobId"], execution["state"]) == (data["jobId"], "succeeded")
    assert await ids(client) == []
    assert (await client.get("/counts/jobs")).json()["data"]["total"]["value"] == 0
    assert await ids(client, system="true") == [data["jobId"]]
    job = (await client.get(f"/jobs/{data['jobId']}")).json()["data"]
    assert (job["kind"], job["nextFireTime"]) == ("external", None)


async def test_it_is_destroyed_by_itself(client: httpx.AsyncClient, world: World) -> None:
    """Ten minutes after its beginning, nothing is left but its execution."""
    data = await attempt(client)
    await world.answer_calls()
    world.wall += TRIAL_KEPT_MS - 1
    assert await world.deps.upkeep.trials.sweep() == 1
    world.wall += 1
    assert await world.deps.upkeep.trials.sweep() == 0
    assert (await client.get(f"/jobs/{data['jobId']}")).status_code == 404
    assert world.catalogue.entries == world.documents == {}
    assert (await client.get(f"/executions/{data['executionId']}")).is_success


async def test_one_that_runs_stays(client: httpx.AsyncClient, world: World) -> None:
    """However long it takes."""
    await attempt(client)
    world.wall += 10 * TRIAL_KEPT_MS
    assert await world.deps.upkeep.trials.sweep() == 1
    await world.answer_calls()
    assert await world.deps.upkeep.trials.sweep() == 0
    # Jobs that are no trials stay: whatever their ids are
    assert (await client.post("/jobs/trial:x", json=definition(parentJob="a"))).is_success
    world.wall += 10 * TRIAL_KEPT_MS
    assert await world.deps.upkeep.trials.sweep() == 0
    assert await ids(client) == ["trial:x"]


@pytest.mark.parametrize("path", ["/jobs/trial:x", "/jobs/trial:x/update", "/definitions/check"])
async def test_a_posted_definition_cannot_be_a_trial(
    client: httpx.AsyncClient, world: World, path: str
) -> None:
    """Nor hidden or destroyed as one, also where the same definition was tried before."""
    mine = definition(jobId="trial:x", timer={"period": "external"}, active=1)
    assert (await client.post("/jobs/trial:x", json=mine)).is_success
    await attempt(client, **mine)
    posted = mine | {"parentJob": TRIALS}
    refused = await client.post(path, json=posted)
    assert (refused.status_code, pointers(refused)) == (422, [("/parentJob", "reserved")])
    both = await client.post(path, json=posted | {"timer": {"period": "no"}})
    assert pointers(both) == [("/timer/period", "invalid"), ("/parentJob", "reserved")]
    (item,) = (await client.post("/jobs", json=[posted])).json()["data"]["items"]
    assert [one["pointer"] for one in item["problem"]["errors"]] == ["/parentJob"]
    tried = await client.post("/definitions/try", json={"definition": posted})
    assert pointers(tried) == [("/definition/parentJob", "reserved")]
    assert await ids(client) == ["trial:x"]


async def test_a_declared_timer_cannot_be_a_trial(client: httpx.AsyncClient) -> None:
    """The registration is refused as a whole."""
    timers = [definition(jobId="trial:x", parentJob=TRIALS)]
    refused = await client.put("/services/reports/instances/r1", json={"timers": timers})
    assert pointers(refused) == [("/timers/0/parentJob", "reserved")]


async def test_a_trial_can_be_labelled(client: httpx.AsyncClient) -> None:
    """It stays a trial."""
    data = await attempt(client)
    body = {"action": "label", "labels": {"team": "ops"}, "select": {"jobIds": [data["jobId"]]}}
    answer = await client.post("/bulk/jobs", json=body)
    assert answer.json()["data"]["operation"]["succeeded"] == 1, answer.text
    assert await ids(client) == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"definition": definition(qos=7)}, "/definition/qos"),
        ({"definition": definition(timer={"period": "61 * * * * ?"})}, "/definition/timer/period"),
        ({"definition": []}, "/definition"),
        ({"definition": definition(), "params": 1}, "/params"),
        ({"definition": definition(), "size": 1}, "/size"),
        ({}, "/definition"),
    ],
)
async def test_what_is_wrong_is_refused(
    client: httpx.AsyncClient, world: World, body: Any, pointer: str
) -> None:
    """As the creation of the job would be, its timer too; nothing is made."""
    refused = await client.post("/definitions/try", json=body)
    assert refused.status_code == 422
    assert pointers(refused)[0][0] == pointer
    assert world.catalogue.entries == {}


async def test_one_that_may_not_begin_leaves_no_job(client: httpx.AsyncClient, world: World) -> None:
    """As where its parameters do not fit: it takes no place among its tenant's."""
    body = {"definition": definition(paramsSchema={"required": ["size"]}), "params": {}}
    for _ in range(2):
        refused = await client.post("/definitions/try", json=body, headers=KEY)
        assert refused.status_code == 422, refused.text
        assert await ids(client, system="true") == []
    assert await world.deps.upkeep.trials.sweep() == 0
    assert world.catalogue.entries == world.documents == {}


async def test_warnings_are_those_of_the_definition(client: httpx.AsyncClient) -> None:
    """With pointers into the body."""
    members = {"timer": {"dueTime": "1s", "period": "0 0 * * * ?"}}
    made = (await client.post("/jobs/a", json=definition(**members))).json()["warnings"]
    answer = await client.post("/definitions/try", json={"definition": definition(**members)})
    tried = answer.json()["warnings"]
    assert [{**one, "pointer": f"/definition{one['pointer']}"} for one in made] == tried != []


async def test_a_key_is_one_trial(client: httpx.AsyncClient, world: World) -> None:
    """The same answer, also after its end; another body is refused."""
    first = await attempt(client, KEY)
    assert await attempt(client, KEY) == first
    assert len(world.history.runs) == 1
    await world.answer_calls()
    world.wall += TRIAL_KEPT_MS
    await world.deps.upkeep.trials.sweep()
    assert await attempt(client, KEY) == first
    other = await client.post("/definitions/try", json={"definition": definition(jobName="b")}, headers=KEY)
    assert other.status_code == 422
    assert world.documents == {}


class Breaking(World):
    """The store goes before the first event of a kind for a job, or right after its turn."""

    kind: type[Event] | None = None
    is_after = False

    async def deliver(self, job_id: str, command: Command) -> Reply:
        if self.kind is None or not isinstance(command.event, self.kind) or job_id not in self.documents:
            return await super().deliver(job_id, command)
        self.kind = None
        if self.is_after:
            await super().deliver(job_id, command)
        raise StoreUnavailable("away")


@each_row("is_after", [False, True], ids=["before the trigger", "before the answer"])
async def test_a_crash_in_the_middle_leaves_nothing(is_after: bool) -> None:
    """Sent again under its key it is run once; else it is destroyed like any other."""
    world = Breaking()
    world.kind, world.is_after = Triggered, is_after
    async with world.client() as client:
        body = {"definition": definition()}
        assert (await client.post("/definitions/try", json=body, headers=KEY)).status_code == 503
        again = await client.post("/definitions/try", json=body, headers=KEY)
        assert again.status_code == 201
        assert [len(world.documents), len(world.history.runs)] == [1, 1]
        world.kind = Triggered
        assert (await client.post("/definitions/try", json=body)).status_code == 503
        await world.answer_calls()
        world.wall += TRIAL_KEPT_MS
        assert await world.deps.upkeep.trials.sweep() == 0
        assert world.catalogue.entries == world.documents == {}


async def test_trials_that_a_kill_left_without_an_execution_go() -> None:
    """They are active and will never fire; ten minutes after their creation they are gone."""
    world = Breaking()
    async with world.client() as client:
        for _ in range(2):
            world.kind = Triggered
            posted = await client.post("/definitions/try", json={"definition": definition()})
            assert posted.status_code == 503
        left = (await client.get("/jobs?system=true")).json()["data"]["items"]
        assert [(one["state"], one["executeNumber"], one["nextFireTime"]) for one in left] == [
            ("active", 0, None)
        ] * 2
        assert world.history.runs == {}
        world.wall += TRIAL_KEPT_MS - 1
        assert await world.deps.upkeep.trials.sweep() == 2
        world.wall += 1
        assert await world.deps.upkeep.trials.sweep() == 0
        assert await ids(client, system="true") == []
        assert world.catalogue.entries == world.documents == {}


class Forgetful(World):
    """The store goes after a trial was destroyed, before it is forgotten."""

    is_away = False

    async def forget(self, job_id: str) -> bool:
        if self.is_away:
            raise StoreUnavailable("away")
        return await super().forget(job_id)


async def test_a_crash_between_destruction_and_forgetting_leaves_nothing() -> None:
    """The next sweep forgets it, and counts it no longer."""
    world = Forgetful()
    async with world.client() as client:
        data = await attempt(client)
        await world.answer_calls()
        world.wall += TRIAL_KEPT_MS
        world.is_away = True
        with pytest.raises(StoreUnavailable):
            await world.deps.upkeep.trials.sweep()
        assert [one.state for one in world.catalogue.entries.values()] == [JobState.DESTROYED]
        world.is_away = False
        assert await world.deps.upkeep.trials.sweep() == 0
        assert world.catalogue.entries == world.documents == {}
        assert (await client.get(f"/executions/{data['executionId']}")).is_success


async def test_there_are_not_too_many(client: httpx.AsyncClient, world: World) -> None:
    """The next one is refused until old ones are over; a trial makes room itself."""
    for _ in range(MOST_LIVING):
        await attempt(client)
    refused = await client.post("/definitions/try", json={"definition": definition()})
    assert (refused.status_code, pointers(refused)) == (429, [("", "limit")])
    assert refused.headers["retry-after"] == "60"
    await world.answer_calls()
    world.wall += TRIAL_KEPT_MS
    await attempt(client)
    assert len(world.documents) == 1


async def test_callers_at_one_moment_pass_no_limit(client: httpx.AsyncClient, world: World) -> None:
    """As many as may live begin, and no further one."""
    body = {"definition": definition()}
    sent = [client.post("/definitions/try", json=body) for _ in range(MOST_LIVING + 20)]
    answers = await asyncio.gather(*sent)
    assert Counter(one.status_code for one in answers) == {201: MOST_LIVING, 429: 20}
    assert len(world.documents) == MOST_LIVING


@each_row("end", ["swept", "deleted"])
async def test_a_key_whose_trial_has_gone_runs_nothing(end: str) -> None:
    """Where the answer was lost in a crash, the execution is found again, not repeated; also without room."""
    world = Breaking()
    async with world.client() as client:
        world.kind, world.is_after = Triggered, True
        body = {"definition": definition()}
        assert (await client.post("/definitions/try", json=body, headers=KEY)).status_code == 503
        (job_id,) = world.documents
        await world.answer_calls()
        if end == "deleted":
            assert (await client.delete(f"/jobs/{job_id}")).is_success
        world.wall += TRIAL_KEPT_MS
        assert await world.deps.upkeep.trials.sweep() == 0
        assert world.documents == {}
        for _ in range(MOST_LIVING):
            await attempt(client)
        again = await client.post("/definitions/try", json=body, headers=KEY)
        data = again.json()["data"]
        assert (again.status_code, data["jobId"], data["executeNumber"]) == (201, job_id, 1)
        assert (await client.get(f"/executions/{data['executionId']}")).json()["data"]["state"] == "succeeded"
        assert [one for one in world.documents if one == job_id] == []
