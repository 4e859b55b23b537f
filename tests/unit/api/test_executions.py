"""Executions over the wire: lists, one in full, cancel, replay, release (SPEC section 10)."""

from typing import Any

import httpx
import msgspec
import pytest

from scheduler_service.api.query_filters import PAGE
from scheduler_service.domain.effects import Call
from scheduler_service.domain.records import without_params
from tests.rows import each_row
from tests.unit.api.world import World, definition, pointers, start


async def test_executions_are_listed_and_read(client: httpx.AsyncClient) -> None:
    """By job, over all, by state, by label, and one in full (SPEC section 10)."""
    execution_id = await start(client, labels={"team": "ops"})
    await start(client, "j2")
    for path in ("/jobs/j1/executions", "/executions?jobId=j1", "/main/execution?jobId=j1"):
        items = (await client.get(path)).json()["data"]["items"]
        assert [item["executionId"] for item in items] == [execution_id]
    assert len((await client.get("/executions?state=processing")).json()["data"]["items"]) == 2
    labelled = (await client.get("/executions?label=team:ops&label=team:ops")).json()["data"]["items"]
    assert [item["jobId"] for item in labelled] == ["j1"]
    full = (await client.get(f"/executions/{execution_id}")).json()["data"]
    assert (full["jobId"], full["attempts"], full["notifications"]) == ("j1", [], [])
    assert (await client.get(f"/executions/{execution_id}/log")).json()["data"]["items"] == []
    # Executions of all labelled jobs are listed
    ops = {"labels": {"team": "dev"}}
    many = [definition(jobId=f"j{number:03}", **ops) for number in range(PAGE + 1)]
    await client.post("/jobs", json=many)
    await client.post(f"/jobs/{many[-1]['jobId']}/trigger")
    found = (await client.get("/executions?label=team:dev")).json()["data"]["items"]
    assert [item["jobId"] for item in found] == [f"j{PAGE:03}"]


async def test_executions_are_chosen_by_their_outcome(client: httpx.AsyncClient, world: World) -> None:
    """`failed` is failed for good: the state `failed` waits for a retry (SPEC section 10)."""
    ended = await start(client)
    await world.answer_calls(status=500)
    waiting = await start(client, "j2", retry=[{"errorEquals": "500", "intervalSeconds": 60}])
    await world.answer_calls(status=500)
    succeeded = await start(client, "j3")
    await world.answer_calls()
    cancelled = await start(client, "j4")
    await client.post(f"/executions/{cancelled}/cancel")
    skipped = (await client.post("/jobs/j2/trigger")).json()["data"]["executionId"]
    expected = {"failed": ended, "succeeded": succeeded, "cancelled": cancelled, "skipped": skipped}
    for outcome, execution_id in expected.items():
        for path in ("/executions", f"/main/execution?jobId={await job_of(client, execution_id)}"):
            found = await client.get(path, params={"outcome": outcome} | dict(httpx.URL(path).params))
            items = found.json()["data"]["items"]
            assert [item["executionId"] for item in items] == [execution_id], (outcome, path)
    states = (await client.get("/executions?state=failed")).json()["data"]["items"]
    assert [item["executionId"] for item in states] == [waiting]
    same = await client.get("/jobs/j1/executions?outcome=failed&state=terminated")
    assert len(same.json()["data"]["items"]) == 1
    refused = await client.get("/executions?outcome=failed&state=failed")
    assert (refused.status_code, pointers(refused)) == (422, [("/outcome", "contradiction")])
    unknown = await client.get("/executions?outcome=terminated")
    assert (unknown.status_code, pointers(unknown)) == (422, [("/outcome", "invalid")])


async def job_of(client: httpx.AsyncClient, execution_id: str) -> str:
    """The job of an execution."""
    job_id: str = (await client.get(f"/executions/{execution_id}")).json()["data"]["jobId"]
    return job_id


READS = (
    "/executions",
    "/jobs/j1/executions",
    "/main/execution?jobId=j1",
    "/jobs/j1/firings",
    "/deliveries",
    "/stats",
    "/statistics",
    "/jobs/j1/statistics",
    "/series/executions",
    "/counts/executions",
    "/outcomes?jobId=j1",
    "/executions/{0}",
    "/executions/{0}/log",
    "/main/getChildJobLogsByExecutionId?executionId={0}",
)


@pytest.mark.parametrize("read", READS)
async def test_a_read_asks_for_what_was_answered_before(
    client: httpx.AsyncClient, world: World, read: str
) -> None:
    """The history is flushed first, so that the answer has it (SPEC section 10)."""
    execution_id = await start(client)
    world.flushes = 0
    shown = await client.get(read.format(execution_id))
    assert (shown.status_code, shown.json()["warnings"], world.flushes) == (200, [], 1)


@each_row("read", READS)
@each_row("does_hang", [False, True])
async def test_what_is_known_is_shown_while_no_history_can_be_written(read: str, does_hang: bool) -> None:
    """What is written is shown with a warning; of an execution that was never written nothing is known."""
    world = World(flush_seconds=0.01)
    async with world.client() as client:
        execution_id = await start(client)
        world.is_history_stuck, world.is_history_locked = not does_hang, does_hang
        shown = await client.get(read.format(execution_id))
        assert shown.status_code == 200
        assert [warning["code"] for warning in shown.json()["warnings"]] == ["history_behind"]
        if "{0}" in read:
            assert (await client.get(read.format(f"{execution_id}0"))).status_code == 503


async def test_one_attempt_is_read_alone(client: httpx.AsyncClient) -> None:
    """By its `requestCounts`; one that is not there has no attempts (SPEC section 10)."""
    path = f"/executions/{await start(client)}"
    for given, expected in ((2, [2]), (9, [])):
        shown = (await client.get(f"{path}?requestCounts={given}")).json()["data"]
        assert [one["requestCounts"] for one in shown["attempts"]] == expected
    wrong = await client.get(f"{path}?requestCounts=two")
    assert (wrong.status_code, pointers(wrong)) == (422, [("/requestCounts", "invalid")])
    assert (await client.get(f"{path}?attempt=2")).status_code == 422


async def test_history_outlives_its_job(client: httpx.AsyncClient) -> None:
    """History stays until it is cleaned (SPEC section 10)."""
    await start(client)
    await client.delete("/jobs/j1")
    assert len((await client.get("/jobs/j1/executions")).json()["data"]["items"]) == 1
    assert (await client.get("/jobs/never/executions")).status_code == 404


async def test_a_live_execution_is_cancelled_once(client: httpx.AsyncClient) -> None:
    """Cancel with a reason; 409 if it has ended; 404 if it never was (SPEC section 10)."""
    execution_id = await start(client)
    cancelled = await client.post(f"/executions/{execution_id}/cancel", json={"reason": "wrong day"})
    assert cancelled.json()["data"]["state"] == "cancelled"
    assert (await client.get(f"/executions/{execution_id}")).json()["data"]["state"] == "cancelled"
    again = await client.post(f"/executions/{execution_id}/cancel")
    assert (again.status_code, pointers(again)) == (409, [("/executionId", "conflict")])
    uid = execution_id.rpartition("-")[0]
    assert (await client.post(f"/executions/{uid}-7/cancel")).status_code == 404
    assert (await client.post("/executions/nobody-1/cancel")).status_code == 404
    await client.delete("/jobs/j1")
    assert (await client.post(f"/executions/{execution_id}/cancel")).status_code == 409
    wrong = await client.post(f"/executions/{execution_id}/cancel", json={"why": "x"})
    assert (wrong.status_code, pointers(wrong)) == (422, [("/why", "unknown_field")])


async def test_an_execution_is_named_by_job_and_number(client: httpx.AsyncClient, world: World) -> None:
    """`JOB#NUMBER` and `JOB#last` wherever one is asked for; `last` outlives the job (SPEC section 10)."""
    first = await start(client)
    await world.answer_calls()
    last = (await client.post("/jobs/j1/trigger")).json()["data"]["executionId"]
    for name, expected in (("j1%23last", last), ("j1%231", first), ("j1%2302", last)):
        assert (await client.get(f"/executions/{name}")).json()["data"]["executionId"] == expected, name
        assert (await client.get(f"/executions/{name}/log")).status_code == 200, name
    assert (await client.get("/main/getChildJobLogsByExecutionId?executionId=j1%23last")).status_code == 200
    bulk = {"action": "cancel", "select": {"executionIds": ["j1#last", "none#last"]}}
    report = (await client.post("/bulk/executions", json=bulk)).json()["data"]["operation"]
    assert (report["succeeded"], report["failed"]) == (1, 1)
    replayed = (await client.post("/executions/j1%23last/replay")).json()["data"]
    assert replayed["executeNumber"] == 3
    await client.delete("/jobs/j1")
    assert (await client.get("/executions/j1%23last")).json()["data"]["executeNumber"] == 3
    # Numbers go on over lives: that of an earlier one still names its execution
    fourth = await start(client)
    for name, expected in (("j1%231", first), ("j1%232", last), ("j1%234", fourth)):
        assert (await client.get(f"/executions/{name}")).json()["data"]["executionId"] == expected, name
    await client.delete("/jobs/j1")
    for name in ("j1", "j1%23", "j1%23x", "j1%239", "none%23last", "none%231", "a%20b%23last", "%23last"):
        absent = await client.get(f"/executions/{name}")
        assert (absent.status_code, pointers(absent)) == (404, [("/executionId", "absent")]), name
        assert repr(httpx.URL(f"http://x/{name}").path[1:]) in absent.json()["detail"], name
    assert "JOB#last" in (await client.get("/executions/j1")).json()["detail"]


async def test_a_command_that_comes_again_means_the_same_execution(
    client: httpx.AsyncClient, world: World
) -> None:
    """Under its Idempotency-Key `JOB#last` stays that which was the last one, whatever began since."""
    await start(client, maxConcurrency=2)
    key = {"Idempotency-Key": "k"}
    first = (await client.post("/executions/j1%23last/cancel", headers=key)).json()["data"]
    await client.post("/jobs/j1/trigger")
    assert (await client.post("/executions/j1%23last/cancel", headers=key)).json()["data"] == first
    assert (await client.get("/executions/j1%23last")).json()["data"]["state"] == "processing"


async def test_the_last_one_is_not_known_while_the_history_is_behind(world: World) -> None:
    """503 and no other execution; by its number it is known to the job, and can be cancelled."""
    async with world.client() as client:
        await start(client)
        world.is_history_stuck = True
        assert (await client.post("/executions/j1%23last/cancel")).status_code == 503
        assert (await client.post("/executions/j1%231/cancel")).status_code == 200


async def test_a_replay_goes_on_from_a_step(client: httpx.AsyncClient, world: World) -> None:
    """From a step on, with the earlier responses and edited parameters (SPEC section 10)."""
    steps = [{"url": "http://t.test/a"}, {"url": "http://t.test/${$.rows}?day=${$.trigger.day}"}]
    await client.post("/jobs/j1", json=definition(request=steps))
    first = (await client.post("/jobs/j1/trigger", json={"day": "mon"})).json()["data"]["executionId"]
    await world.answer_calls()
    body = {"fromStep": 1, "params": {"day": "tue"}}
    replayed = await client.post(f"/executions/{first}/replay", json=body)
    assert replayed.json()["data"]["executeNumber"] == 2
    call = next(effect for effect in world.effects if isinstance(effect, Call))
    assert call.request.url == "http://t.test/7?day=tue"
    # A replay needs the responses before its step: what was not recorded cannot be replayed
    execution_id = await start(client, request=[{"url": "http://t.test/a"}, {"url": "http://t.test/b"}])
    response = await client.post(f"/executions/{execution_id}/replay", json={"fromStep": 1})
    assert (response.status_code, pointers(response)) == (422, [("/fromStep", "no_response")])


async def test_a_replay_has_the_parameters_of_what_it_repeats(
    client: httpx.AsyncClient, world: World
) -> None:
    """Without `params` those that were sent; where history has not all of them, 409 says to give some."""
    await client.post("/jobs/j1", json=definition(request=[{"url": "http://t.test/${$.trigger.day}"}]))
    first = (await client.post("/jobs/j1/trigger", json={"day": "mon"})).json()["data"]["executionId"]
    assert (await client.get(f"/executions/{first}")).json()["data"]["params"] == {"day": "mon"}
    await world.answer_calls()
    await client.post(f"/executions/{first}/replay")
    assert [one.request.url for one in world.effects if isinstance(one, Call)] == ["http://t.test/mon"]
    await world.answer_calls()
    uid = first.rpartition("-")[0]
    job_id, record = world.history.runs[uid, 1]
    world.history.runs[uid, 1] = (job_id, without_params(record))
    refused = await client.post(f"/executions/{first}/replay")
    assert (refused.status_code, pointers(refused)) == (409, [("/params", "conflict")])
    assert "give params" in refused.json()["detail"]
    await client.post(f"/executions/{first}/replay", json={"params": {"day": "tue"}})
    assert [one.request.url for one in world.effects if isinstance(one, Call)] == ["http://t.test/tue"]


async def test_a_replay_s_parameters_are_checked_where_they_stand(
    client: httpx.AsyncClient, world: World
) -> None:
    """A flaw of `params` points into the body of the replay; one of a trigger, whose body they are, to it."""
    schema = {"properties": {"day": {"type": "string"}}, "required": ["day"]}
    await client.post("/jobs/j1", json=definition(paramsSchema=schema))
    first = (await client.post("/jobs/j1/trigger", json={"day": "mon"})).json()["data"]["executionId"]
    await world.answer_calls()
    for params, place in [({"day": 1}, "/day"), ({}, "")]:
        replayed = await client.post(f"/executions/{first}/replay", json={"params": params})
        assert (replayed.status_code, pointers(replayed)) == (422, [("/params" + place, "invalid")])
        triggered = await client.post("/jobs/j1/trigger", json=params)
        assert (triggered.status_code, pointers(triggered)) == (422, [(place, "invalid")])


@pytest.mark.parametrize("body", [{"fromStep": 1}, {"fromStep": -1}, {"fromStep": "0"}])
async def test_a_replay_starts_at_a_step_that_exists(client: httpx.AsyncClient, body: Any) -> None:
    """`fromStep` is a step's index, from 0 (SPEC section 10)."""
    execution_id = await start(client)
    response = await client.post(f"/executions/{execution_id}/replay", json=body)
    assert response.status_code == 422
    assert pointers(response)[0][0] == "/fromStep"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"response_truncated": True}, "cut"),
        ({"response_redacted": True}, "masked or left out"),
        ({"status": None}, "had no response"),
    ],
)
async def test_a_replay_sends_no_data_that_history_has_changed(
    client: httpx.AsyncClient, world: World, changes: Any, words: str
) -> None:
    """An earlier response that was cut, masked or left out is refused instead of used (SPEC section 10)."""
    steps = [{"url": "http://t.test/a"}, {"url": "http://t.test/${$.rows}"}]
    execution_id = await start(client, request=steps)
    await world.answer_calls()
    sent = world.history.steps[execution_id.rpartition("-")[0], 1]
    sent[0] = msgspec.structs.replace(sent[0], redacted=True)
    assert (await client.post(f"/executions/{execution_id}/replay", json={"fromStep": 1})).is_success
    await world.answer_calls()
    sent[0] = msgspec.structs.replace(sent[0], **changes)
    refused = await client.post(f"/executions/{execution_id}/replay", json={"fromStep": 1})
    assert (refused.status_code, pointers(refused)) == (422, [("/fromStep", "no_response")])
    assert words in refused.json()["detail"]
    assert world.effects == []


async def test_release_of_an_execution_that_is_not_held_changes_nothing(client: httpx.AsyncClient) -> None:
    """`…/release` of an execution that is not held: 200, no effect."""
    execution_id = await start(client)
    assert (await client.post(f"/executions/{execution_id}/release")).status_code == 200


async def test_a_page_of_jobs_has_its_outcomes(client: httpx.AsyncClient, world: World) -> None:
    """An item for each job that is asked for, in this order, once; a job that does not exist has none."""
    await client.post("/jobs/idle", json=definition())
    await start(client, "busy")
    await world.answer_calls()
    answer = await client.get("/outcomes?jobId=none&jobId=busy&jobId=idle&jobId=busy&count=1")
    items = answer.json()["data"]["items"]
    assert [one["jobId"] for one in items] == ["none", "busy", "idle"]
    assert [[run["state"] for run in one["executions"]] for one in items] == [[], ["succeeded"], []]


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("", "/jobId", "required"),
        ("jobId=", "/jobId", "invalid"),
        ("&".join(["jobId=a"] * 101), "/jobId", "too_many"),
        ("jobId=a&count=0", "/count", "invalid"),
        ("jobId=a&count=51", "/count", "invalid"),
        ("jobId=a&state=failed", "/state", "unknown_parameter"),
    ],
)
async def test_bad_questions_are_refused(
    client: httpx.AsyncClient, query: str, pointer: str, code: str
) -> None:
    """With the pointer of the parameter; a hundred jobs are not too many."""
    refused = await client.get(f"/outcomes?{query}")
    assert (refused.status_code, pointers(refused)) == (422, [(pointer, code)])
    most = "&".join(["jobId=" + "a" * 128] * 100)
    assert (await client.get(f"/outcomes?{most}")).status_code == 200
