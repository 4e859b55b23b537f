"""Each status of the API over the whole service, and who may speak to it (SPEC sections 10, 14)."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.rows import each_row
from tests.wire.service import World, data_of, definition, pointers, running
from tests.wire.target import HELD

KEY = "a-key-of-sixteen-characters"


async def test_a_success_comes_in_the_envelope(client: httpx.AsyncClient) -> None:
    """`resp_code` is 200 whatever the HTTP status of the success; warnings stand beside (SPEC section 10)."""
    created = await client.post("/jobs/j", json=definition(timer={"dueTime": "5s", "period": "external"}))
    assert data_of(created, 201)["jobId"] == "j"
    again = await client.post("/jobs/j", json=definition(timer={"dueTime": "5s", "period": "external"}))
    assert data_of(again, 200)["uid"] == data_of(created, 201)["uid"]
    for warned in (created, again):
        assert [warning["pointer"] for warning in warned.json()["warnings"]] == ["/timer/dueTime"]


async def test_401_is_no_key_or_an_unknown_one() -> None:
    """With `server.key` for each route, unknown ones too, but health and description (SPEC section 14)."""
    async with running(server={"key": KEY}) as world:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {KEY}"}):
            for path in ("/jobs", "/jobs/j", "/nothing", "/settings"):
                answer = await world.client.get(path, headers=headers)
                assert (answer.status_code, pointers(answer)) == (401, [("/Authorization", "unauthorized")])
                assert answer.headers["www-authenticate"].startswith("Bearer")
        for path in ("/health/live", "/openapi.json"):
            assert (await world.client.get(path)).status_code == 200
        assert (await world.client.post("/jobs/j/feedback/1", json={})).status_code == 403
        async with world.caller("203.0.113.9", headers={"authorization": f"bearer {KEY}"}) as known:
            created = await known.post("/jobs/j", json=definition(creator=None, creatorName=None))
            assert data_of(created, 201)["creator"] == "admin"
            shown = data_of(await known.get("/settings"))
            assert KEY not in json.dumps(shown)
            both = [("authorization", f"Bearer {KEY}"), ("authorization", "Bearer other")]
            twice = await world.client.get("/jobs", headers=both)
            assert (twice.status_code, pointers(twice)) == (400, [("/Authorization", "repeated")])


async def test_an_array_is_at_most_4_mib(client: httpx.AsyncClient) -> None:
    """4 MiB for arrays (SPEC section 10)."""
    body = b'["' + b"x" * (4 << 20) + b'"]'
    answer = await client.post("/jobs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 413


async def test_429_is_a_limit_with_retry_after() -> None:
    """More delayed triggers than `limits.pending_triggers`: 429 with `Retry-After` (SPEC sections 2, 10)."""
    async with running(limits={"pending_triggers": 2}) as world:
        data_of(await world.client.post("/jobs/j", json=definition(overlapPolicy="allow")), 201)
        for _ in range(2):
            data_of(await world.client.post("/jobs/j/trigger?delaySeconds=100"))
        full = await world.client.post("/jobs/j/trigger?delaySeconds=100")
        assert full.status_code == 429
        assert int(full.headers["retry-after"]) == 100, "then one of them is no longer pending"
        pointers(full)
        data_of(await world.client.post("/jobs/j/trigger"))


async def test_503_while_it_stops_and_feedback_is_still_taken(world: World) -> None:
    """A node that stops starts nothing, and still hears what its work reports (SPEC sections 10, 14)."""
    made = definition(request=[{"url": "service://jobswork/run?to=${schedulingFeedbackUrl}"}])
    data_of(await world.client.post("/jobs/j", json=made | {"async": True, "timeoutSeconds": 1e6}), 201)
    started = data_of(await world.client.post("/jobs/j/trigger"))
    await world.settle()
    stopping = asyncio.create_task(world.stop(10_000_000))

    async def is_draining() -> bool:
        return world.service.host.is_draining

    await world.until(is_draining)
    assert (await world.client.get("/health/ready")).status_code == 503
    for path in ("/jobs/new", "/jobs/j/update"):
        refused = await world.client.post(path, json=definition())
        assert (refused.status_code, pointers(refused)[0][1]) == (503, "unavailable")
        assert int(refused.headers["retry-after"]) >= 1
    assert (await world.client.post("/jobs/j/trigger")).status_code == 503
    url = world.target.seen[0].query["to"]
    told = await world.client.post(url.removeprefix("http://127.0.0.1:8000"), json={"status": "succeed"})
    assert (told.status_code, started["state"]) == (200, "processing")
    await stopping


async def test_a_caller_that_leaves_stops_nothing(world: World) -> None:
    """Who stops waiting stops nothing: the job is there, or it is not, and never half (SPEC section 10)."""
    world.target.always("/run", HELD)
    posting = asyncio.create_task(world.client.post("/jobs/j", json=definition()))
    for _ in range(3):
        await asyncio.sleep(0)
    posting.cancel()
    await asyncio.gather(posting, return_exceptions=True)
    await world.settle()
    found = await world.client.get("/jobs/j")
    listed = data_of(await world.client.get("/jobs"))["items"]
    assert (found.status_code, len(listed)) in ((200, 1), (404, 0))


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


REFUSED = (
    "http://169.254.169.254/latest/meta-data",
    "http://10.1.2.3:8080/${path}",
    "http://0x7f000001/",
    "http://127.1/",
    "http://[::ffff:169.254.169.254]/",
    "http://metadata.google.internal/",
    "HTTPS://192.168.0.1?x=1",
)
FINE = "http://127.0.0.1:9/"


def places(url: str) -> list[tuple[str, dict[str, Any]]]:
    """(pointer, members) of each place of a definition in which `url` may stand."""
    return [
        ("/request/1/url", {"request": [{"url": FINE}, {"url": url}]}),
        ("/checkUrl", {"async": True, "checkUrl": url}),
        ("/checkUrl/url", {"async": True, "checkUrl": {"url": url}}),
        ("/cancelUrl/url", {"cancelUrl": {"url": url}}),
        ("/notification/0/url", {"notification": [{"url": url}]}),
    ]


@pytest.mark.parametrize("url", REFUSED)
async def test_it_is_refused_in_every_place(world: World, url: str) -> None:
    """422 at creation, with the pointer and the reason; nothing is created."""
    for pointer, members in places(url):
        answer = await world.client.post("/jobs/job", json=definition(**members))
        assert (answer.status_code, pointers(answer)) == (422, [(pointer, "egress")]), answer.text
        assert answer.json()["detail"].startswith(f"no request to {url[:12]}")
    assert (await world.client.get("/jobs/job")).status_code == 404


async def test_it_is_refused_by_every_door(world: World) -> None:
    """Creation, update, an array, the declarations of a service and of an instance."""
    client, bad = world.client, definition(jobId="bad", request=[{"url": REFUSED[0]}])
    await client.post("/jobs/there", json=definition(request=[{"url": FINE}]))
    posted = [
        await client.post("/jobs/bad", json=bad),
        await client.post("/jobs/bad", json=bad),
        await client.post("/jobs/there/update", json=bad | {"jobId": "there"}),
    ]
    assert [(one.status_code, pointers(one)) for one in posted] == [(422, [("/request/0/url", "egress")])] * 3
    array = await client.post(
        "/jobs?onExisting=update", json=[bad, bad | {"jobId": "there"}, definition(jobId="fine")]
    )
    assert [one["status"] for one in array.json()["data"]["items"]] == ["refused", "refused", "created"]
    for path in ("/services/own", "/services/own/instances/one"):
        declared = await client.put(path, json={"timers": [bad], "address": "http://127.0.0.1:9"})
        assert (declared.status_code, pointers(declared)) == (422, [("/timers/0/request/0/url", "egress")])


async def test_what_is_no_literal_address_is_left_to_the_request() -> None:
    """Names, and authorities with a variable of the environment: judged as they are sent."""
    urls = (
        "http://intranet/",
        "http://${HOST}/",
        "http://10.0.0.1${x}/",
        "http://$${x}/",
        "service://jobswork/10.0.0.1",
    )
    async with running(env={"default": {"HOST": "10.0.0.1", "x": "2"}}) as world:
        for number, url in enumerate(urls):
            answer = await world.client.post(f"/jobs/job-{number}", json=definition(request=[{"url": url}]))
            assert answer.status_code == 201, (url, answer.text)


async def test_what_the_settings_allow_is_taken_and_what_they_deny_is_not() -> None:
    """`egress.allow` opens private addresses, `egress.deny` closes public ones; not for services."""
    async with running(egress={"allow": ["10.0.0.0/8"], "deny": ["93.184.216.34"]}) as world:
        urls = {"http://10.0.0.1/": 201, "http://93.184.216.34/": 422, "http://127.0.0.1/": 422}
        for index, (url, status) in enumerate(urls.items()):
            answer = await world.client.post(f"/jobs/job-{index}", json=definition(request=[{"url": url}]))
            assert answer.status_code == status, url
        step = {"url": "http://169.254.169.254/run", "serviceName": "jobswork"}
        assert (await world.client.post("/jobs/own", json=definition(request=[step]))).status_code == 201
