"""A report with a wrong token is refused before its body is read, and costs no look at the job."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler_service.api.request_keys import FeedbackKeys
from scheduler_service.api.responses import ApiProblem
from scheduler_service.engine.decision import Job
from scheduler_service.engine.scope import feedback_token
from tests.unit.api.world import KEY, World, definition, pointers

JSON_TYPE = {"Content-Type": "application/json"}


class Body:
    """A body that knows how much of it was read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.read < self.size:
            self.read += 1_000
            yield b"[" * 1_000


async def begin(world: World) -> str:
    """A job whose attempt waits for feedback; its `uid`."""
    async with world.client() as client:
        data = (await client.post("/jobs/j1", json=definition(**{"async": True}))).json()["data"]
        await client.post("/jobs/j1/trigger")
        await world.answer_calls()
    return str(data["uid"])


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/jobs/j1/feedback/1?token=wrong", 403, "forbidden"),
        ("/jobs/j1/feedback/1", 403, "forbidden"),
        ("/jobs/none/feedback/1?token=wrong", 404, "absent"),
    ],
)
async def test_a_report_without_its_token_is_refused_unread(
    world: World, path: str, status: int, code: str
) -> None:
    """Nothing of its body is asked for, and no turn is taken."""
    await begin(world)
    turns, body = world.turns, Body(100_000)
    async with world.client() as client:
        refused = await client.post(path, content=body, headers=JSON_TYPE)
    assert refused.status_code == status
    assert [found for _, found in pointers(refused)] == [code]
    assert (body.read, world.turns) == (0, turns)


async def test_a_report_is_at_most_64_kib(world: World) -> None:
    """The setting `limits.feedback_bytes`; the text of a report counts as it is."""
    token = feedback_token(KEY, await begin(world), 1)
    async with world.client() as client:
        for size, status in ((65_536, 200), (65_537, 413)):
            report: dict[str, Any] = {"status": "", "data": ""}
            report["data"] = "x" * (size - len(json.dumps(report)))
            answer = await client.post(
                f"/jobs/j1/feedback/1?token={token}", content=json.dumps(report), headers=JSON_TYPE
            )
            assert answer.status_code == status


async def test_many_reports_read_the_job_once(world: World) -> None:
    """Good ones and bad ones; a new life of the job is read anew, and old tokens fit no more."""
    reads: list[str] = []

    async def read(job_id: str) -> Job | None:
        reads.append(job_id)
        return await read_before(job_id)

    read_before, world.read, keys = world.read, read, FeedbackKeys()  # type: ignore[method-assign]
    old = feedback_token(KEY, await begin(world), 1)
    for _ in range(3):
        await keys.check(world, world.catalogue, "j1", 1, old)
        with pytest.raises(ApiProblem, match="does not belong to requestCounts 1"):
            await keys.check(world, world.catalogue, "j1", 1, "wrong")
    assert reads == ["j1"]
    async with world.client() as client:
        await client.delete("/jobs/j1")
    await keys.check(world, world.catalogue, "j1", 1, old)  # the turn refuses it
    with pytest.raises(ApiProblem, match="there is no job"):
        await keys.check(world, world.catalogue, "j1", 1, "wrong")
    new = feedback_token(KEY, await begin(world), 1)
    await keys.check(world, world.catalogue, "j1", 1, new)
    with pytest.raises(ApiProblem, match="does not belong"):
        await keys.check(world, world.catalogue, "j1", 1, old)
    assert reads == ["j1", "j1"]
