"""A 404 names what is not there (SPEC section 10)."""

import httpx

from tests.rows import each_row
from tests.wire.service import World, definition, pointers

JOBS = (
    ("GET", "/jobs/gone", None),
    ("PUT", "/jobs/gone?active=0", None),
    ("PUT", "/jobs/gone?active=1", None),
    ("DELETE", "/jobs/gone", None),
    ("DELETE", "/job/gone", None),
    ("POST", "/jobs/gone/update", definition()),
    ("POST", "/jobs/gone/trigger", {}),
    ("POST", "/jobs/gone/feedback/1?token=t", {"status": "succeed"}),
    ("GET", "/jobs/gone/next", None),
    ("GET", "/jobs/gone/executions", None),
    ("GET", "/jobs/gone/firings", None),
    ("GET", "/jobs/gone/revisions", None),
    ("GET", "/jobs/gone/retry-plan?error=500", None),
    ("DELETE", "/main/destroyByParentJob?parentJobId=gone", None),
)
OTHERS = (
    ("GET", "/executions/{uid}-7", None),
    ("GET", "/executions/{uid}-7/log", None),
    ("POST", "/executions/{uid}-7/cancel", {}),
    ("POST", "/executions/{uid}-7/release", None),
    ("POST", "/executions/{uid}-7/replay", {}),
    ("GET", "/executions/none", None),
    ("POST", "/deliveries/lost/resend", None),
    ("POST", "/deliveries/lost/dismiss", None),
    ("GET", "/services/lost", None),
    ("DELETE", "/services/lost", None),
    ("GET", "/services/lost/drift", None),
    ("DELETE", "/services/lost/instances/one", None),
    ("POST", "/services/lost/instances/one/heartbeat", {}),
)


async def ask(world: World, method: str, path: str, body: object) -> httpx.Response:
    """The answer to one call, without a body where it has none."""
    return await world.client.request(method, path, **({} if body is None else {"json": body}))


@each_row(("method", "path", "body"), JOBS)
async def test_a_job_that_is_not_there_is_named(world: World, method: str, path: str, body: object) -> None:
    """By every route, in `detail` and in the message."""
    answer = await ask(world, method, path, body)
    assert answer.status_code == 404, answer.text
    assert [code for _, code in pointers(answer)] == ["absent"]
    assert "no job 'gone'" in answer.json()["detail"]
    assert "no job 'gone'" in answer.json()["errors"][0]["message"]


@each_row(("method", "path", "body"), OTHERS)
async def test_other_things_are_named(world: World, method: str, path: str, body: object) -> None:
    """An execution by its id or by job and number; deliveries, services and instances by their names."""
    made = await world.client.post("/jobs/here", json=definition())
    uid = made.json()["data"]["uid"]
    answer = await ask(world, method, path.replace("{uid}", uid), body)
    assert answer.status_code == 404, answer.text
    said = answer.json()["detail"]
    names = ("'lost'", "'none'", f"'{uid}-7'", "the job 'here' has no execution 7")
    assert any(name in said for name in names), said
