"""Tenants: their keys, their limits, and what one sees of another, over a whole service (SPEC section 14)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from scheduler_service.maintenance import database_keys
from scheduler_service.settings import Settings
from tests.wire.event_stream import listening
from tests.wire.metrics_text import read_text
from tests.wire.service import World, data_of, definition, running
from tests.wire.target import HELD

KEY = "the-key-of-the-settings"
TENANTS = ("crimson", "azure")


class Tenant:
    """A caller of one tenant, whose every text says which one it is."""

    def __init__(self, world: World, name: str, key: str) -> None:
        self.name, self._world = name, world
        self.client = world.caller(headers={"Authorization": f"Bearer {key}"})

    async def register(self, service: str) -> None:
        """An instance of a service, by a key of that."""
        caller = await by_service(self._world, self.client, service)
        data_of(
            await caller.put(f"/services/{service}/instances/i", json={"address": self._world.target.url}),
            201,
        )

    def job(self, **members: Any) -> dict[str, Any]:
        """A definition that says whose it is."""
        marked = {"jobName": f"of {self.name}", "creator": self.name, "creatorName": self.name}
        return definition(**marked, labels={"mark": self.name}, **members)


async def by_service(world: World, admin: httpx.AsyncClient, service: str) -> httpx.AsyncClient:
    """A caller with a new key of a service."""
    wanted = {"name": f"a {service}", "role": "editor", "service": service}
    key = data_of(await admin.post("/keys", json=wanted), 201)["key"]
    return world.caller(headers={"Authorization": f"Bearer {key}"})


async def make(world: World, name: str) -> Tenant:
    """An admin of a new tenant."""
    admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
    wanted = {"name": name, "role": "admin", "tenant": name}
    return Tenant(world, name, data_of(await admin.post("/keys", json=wanted), 201)["key"])


async def test_what_is_another_tenants_is_not_there() -> None:
    """404 by every id that the other one has, and nothing is done (SPEC section 10)."""
    async with running(server={"key": KEY}) as world:
        red, blue = [await make(world, name) for name in TENANTS]
        failing = {"notification": [{"url": "http://127.0.0.1:1/x"}]}
        data_of(await red.client.post("/jobs/one", json=red.job(**failing)), 201)
        started = data_of(await red.client.post("/jobs/one/trigger", json={"of": "crimson"}))
        execution = started["executionId"]
        await world.settle()

        async def delivered() -> Any:
            return data_of(await red.client.get("/deliveries"))["items"]

        (delivery, *_) = await world.until(delivered)
        missing = [
            ("GET", "/jobs/one"),
            ("POST", "/jobs/one/trigger"),
            ("PUT", "/jobs/one?active=0"),
            ("DELETE", "/jobs/one"),
            ("GET", f"/executions/{execution}"),
            ("GET", f"/executions/{execution}/log"),
            ("POST", f"/executions/{execution}/cancel"),
            ("POST", f"/executions/{execution}/replay"),
            ("POST", f"/executions/{execution}/release"),
            ("POST", f"/deliveries/{delivery['deliveryId']}/resend"),
            ("POST", f"/deliveries/{delivery['deliveryId']}/dismiss"),
            ("GET", f"/main/getChildJobLogsByExecutionId?executionId={execution}"),
            ("DELETE", "/main/destroyByParentJob?parentJobId=one"),
        ]
        for method, path in missing:
            answer = await blue.client.request(method, path)
            assert answer.status_code == 404, (method, path, answer.text)
        assert data_of(await red.client.get("/jobs/one"))["state"] == "active"
        data_of(await red.client.delete("/jobs/one"))
        whole = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        for caller, prefix in (
            (blue.client, ""),
            (whole, ""),
            (whole, "crimson|"),
            (blue.client, "crimson|"),
        ):
            for verb in ("resend", "dismiss"):
                path = f"/deliveries/{prefix}{delivery['deliveryId']}/{verb}"
                assert (await caller.post(path)).status_code == 404, path
        data_of(await red.client.post(f"/deliveries/{delivery['deliveryId']}/dismiss"))
        data_of(await red.client.post("/jobs/one", json=red.job()), 201)
        execution = data_of(await red.client.post("/jobs/one/trigger"))["executionId"]
        assert data_of(await blue.client.get("/jobs"))["items"] == []
        assert data_of(await red.client.get(f"/executions/{execution}"))["executionId"] == execution


async def test_a_job_of_a_tenant_does_all_that_one_of_default_does() -> None:
    """Its environment, services, queues and feedback are its own tenant's."""
    env = {"default": {"PLACE": "default"}, "crimson": {"PLACE": "crimson"}}
    async with running(server={"key": KEY}, env=env) as world:
        red, blue = [await make(world, name) for name in TENANTS]
        await red.register("shop")
        reported = {
            "request": [{"url": "service://shop/run/${PLACE}?back=${schedulingFeedbackUrl}"}],
            "async": True,
        }
        data_of(await red.client.post("/jobs/one", json=red.job(**reported)), 201)
        started = data_of(await red.client.post("/jobs/one/trigger"))
        await world.settle()
        (call,) = world.target.seen
        assert call.path == "/run/crimson"
        url = call.query["back"]
        assert "tenant=crimson" in url
        bare = world.caller()
        assert (await bare.post(url, json={"status": "succeed"})).status_code == 200
        await world.settle()
        found = data_of(await red.client.get(f"/executions/{started['executionId']}"))
        assert found["state"] == "succeeded"
        assert (await blue.client.get("/services/shop")).status_code == 404
        data_of(await blue.client.post("/jobs/one", json=blue.job(**reported | {"async": False})), 201)
        failed = data_of(await blue.client.post("/jobs/one/trigger"))
        assert failed["executionId"] != started["executionId"]
        await world.settle()
        assert len(world.target.seen) == 1, "the service of the other one is not called"


async def test_metrics_name_nothing_of_a_tenant() -> None:
    """Of services, queues and pauses they name those of `default`, and count no other under the same name."""
    async with running(server={"key": KEY}) as world:
        red, own = await make(world, "crimson"), Tenant(world, "default", KEY)
        whole = own.client
        for tenant, name in ((own, "shop"), (red, "shop"), (red, "crimson-only")):
            await tenant.register(name)
        queued = red.job(request=[{"url": "queue://crimson-work"}])
        data_of(await red.client.post("/jobs/crimson-job", json=queued), 201)
        data_of(await red.client.post("/jobs/crimson-job/trigger"))
        for place in ("services/crimson-only", "queues/crimson-work"):
            data_of(await red.client.post(f"/{place}/pause"))
        await world.settle()
        answer = await whole.get("/metrics")
        assert "crimson" not in answer.text
        figures = read_text(answer.text)
        assert figures.value("punctual_instances", service="shop", state="online") == 1
        assert figures.value("punctual_instances", service="other", state="online") == 2


async def test_a_service_opens_no_way_that_the_egress_policy_closes() -> None:
    """Whose key registers a private address is what counts, not that there are keys (SPEC section 9)."""
    async with running(server={"key": KEY}, egress={}) as world:
        start = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        at = {"address": world.target.url}
        for tenant, of_key, statuses, state, code in (
            ("crimson", {}, (422, 403), "terminated", "no_instance"),
            ("azure", {"service": "shop"}, (201, 201), "succeeded", None),
        ):
            wanted = {"name": "a", "role": "editor", "tenant": tenant, **of_key}
            key = data_of(await start.post("/keys", json=wanted), 201)["key"]
            caller = world.caller(headers={"Authorization": f"Bearer {key}"})
            for path, status in zip(("/services/shop", "/services/shop/instances/i"), statuses, strict=True):
                assert (await caller.put(path, json=at)).status_code == status
            job = definition(request=[{"url": "service://shop/run"}], timeoutSeconds=5, maxRetries=0)
            del job["creator"], job["creatorName"]
            data_of(await caller.post("/jobs/one", json=job), 201)
            execution = data_of(await caller.post("/jobs/one/trigger"))["executionId"]
            await world.settle()
            found = data_of(await caller.get(f"/executions/{execution}"))
            assert (found["state"], found["error"]) == (state, code)
        assert [call.path for call in world.target.seen] == ["/run"]


async def test_an_idempotency_key_is_a_tenants_own() -> None:
    """The same key, body and route of another tenant is another request (SPEC section 10)."""
    async with running(server={"key": KEY}) as world:
        known = {"Idempotency-Key": "the same"}
        started = []
        for name in TENANTS:
            tenant = await make(world, name)
            made = await tenant.client.post("/jobs/one", json=definition(), headers=known)
            assert made.status_code == 201
            started += [await tenant.client.post("/jobs/one/trigger", headers=known) for _ in range(2)]
        ids = [data_of(answer)["executionId"] for answer in started]
        assert (ids[0], ids[2]) == (ids[1], ids[3])
        assert ids[0] != ids[2]


async def test_a_stream_and_a_claim_end_with_their_key(tmp_path: Path) -> None:
    """Both within a second, though another process revoked it; a claim is told why (SPEC section 14)."""
    settings = Settings.model_validate({"server": {"key": KEY}, "store": {"data": str(tmp_path)}})
    async with running(server=settings.server.model_dump(), store={"data": str(tmp_path)}) as world:
        admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        made = data_of(
            await admin.post("/keys", json={"name": "worker", "role": "editor", "service": "q"}), 201
        )
        worker = {"Authorization": f"Bearer {made['key']}"}
        caller = world.caller(headers=worker)
        claim = asyncio.ensure_future(
            caller.post("/queues/q/claim", json={"instanceId": "i", "waitSeconds": 60})
        )
        async with listening(world) as served, served.stream(headers=worker) as stream:
            await asyncio.to_thread(database_keys.revoke_key, settings, made["keyId"])
            async with asyncio.timeout(60):
                assert (await claim).status_code == 401
                await stream.rest()
        assert (await caller.get("/jobs")).status_code == 401
        audit = (await admin.get("/audit")).text
        assert "makeKey" in audit
        assert made["key"].removeprefix(f"pk_{made['keyId']}_") not in audit


async def test_a_key_that_a_command_makes_counts_in_a_running_service(tmp_path: Path) -> None:
    """Without a restart, and from then on everybody needs one (SPEC section 14)."""
    settings = Settings.model_validate({"store": {"data": str(tmp_path)}})
    async with running(store={"data": str(tmp_path)}) as world:
        assert (await world.client.get("/jobs")).status_code == 200
        waiting = {"instanceId": "i", "waitSeconds": 60}
        claim = asyncio.ensure_future(world.client.post("/queues/q/claim", json=waiting))
        async with listening(world) as served, served.stream() as stream:
            made = await asyncio.to_thread(database_keys.make_key, settings, {"name": "me", "role": "admin"})
            async with asyncio.timeout(60):
                assert (await claim).status_code == 401
                await stream.rest()
        caller = world.caller(headers={"Authorization": f"Bearer {made['key']}"})

        async def is_needed() -> bool:
            return (await world.client.get("/jobs")).status_code == 401

        await world.until(is_needed)
        assert (await caller.get("/jobs")).status_code == 200
        assert [one["keyId"] for one in data_of(await caller.get("/keys"))["items"]] == [made["keyId"]]


async def test_who_has_signed_in_with_a_key_stays_so_over_a_restart(tmp_path: Path) -> None:
    """Without any `server.key`; a new text of the key ends the session, and signing out its streams."""
    settings = Settings.model_validate({"store": {"data": str(tmp_path)}})
    made = await asyncio.to_thread(database_keys.make_key, settings, {"name": "me", "role": "admin"})
    async with running(store={"data": str(tmp_path)}) as world:
        signed_in = await world.client.post("/session", json={"key": made["key"]})
        cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
        assert (await world.client.get("/jobs", headers=cookie)).status_code == 200
        world.clock.advance(1)  # sessions of one moment are one
        other = await world.client.post("/session", json={"key": made["key"]})
        own = {"Cookie": other.headers["set-cookie"].partition(";")[0], "X-Punctual-Console": "1"}
        async with listening(world) as served, served.stream(headers=own) as stream:
            assert (await world.client.delete("/session", headers=own)).status_code == 200
            async with asyncio.timeout(60):
                await stream.rest()
    async with running(store={"data": str(tmp_path)}) as world:
        assert data_of(await world.client.get("/session", headers=cookie))["name"] == "me"
        assert (await world.client.get("/jobs", headers=cookie)).status_code == 200
        bearer = {"Authorization": f"Bearer {made['key']}"}
        await world.client.post(f"/keys/{made['keyId']}/rotate", json={"overlapSeconds": 0}, headers=bearer)
        assert (await world.client.get("/jobs", headers=cookie)).status_code == 401


async def test_executions_say_who_triggered_them(tmp_path: Path) -> None:
    """However somebody asked for them, by the name of the key and over a restart; nobody for a timer's."""
    served = {"server": {"key": KEY}, "store": {"data": str(tmp_path)}}
    async with running(**served) as world:
        admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        made = data_of(await admin.post("/keys", json={"name": "Anna", "role": "editor"}), 201)
        anna = world.caller(headers={"Authorization": f"Bearer {made['key']}"})
        for job, period in (("calls", "external"), ("fires", "100ms")):
            posted = definition(jobId=job, timer={"dueTime": "0s", "period": period}, overlapPolicy="allow")
            data_of(await admin.post(f"/jobs/{job}", json=posted), 201)
        data_of(await anna.post("/jobs/calls/trigger"))
        data_of(await anna.post("/executions/calls%231/replay", json={"params": {}}))
        data_of(await anna.post("/bulk/jobs", json={"action": "trigger", "select": {"jobIds": ["calls"]}}))
        data_of(await admin.post("/jobs/calls/trigger?delaySeconds=3600"))
        await world.advance(0.2)
        span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00.200Z", "which": "all"}
        data_of(await anna.post("/jobs/fires/backfill", json=span))
    async with running(**served) as world:
        admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        calls = data_of(await admin.get("/executions?jobId=calls"))["items"]
        assert [one["triggeredByName"] for one in calls] == ["admin", "Anna", "Anna", "Anna"]
        fires = data_of(await admin.get("/executions?jobId=fires"))["items"]
        named = {(one["triggeredBy"], one["triggeredByName"]) for one in fires}
        assert named == {("timer", None), ("backfill", "Anna")}
        assert made["key"] not in str(calls + fires)


BY_ADMIN = {"Authorization": f"Bearer {KEY}"}


class Two:
    """A tenant with limits, and one without."""

    def __init__(self, world: World, small: httpx.AsyncClient, large: httpx.AsyncClient) -> None:
        self.world = world
        self.small = small
        self.large = large


@asynccontextmanager
async def two(*alerts: dict[str, Any], **limits: int) -> AsyncIterator[Two]:
    """The tenant `small` has these limits; `large`, by its own settings, none of those that are for all."""
    usual = {f"tenant_{name}": value for name, value in limits.items()}
    own = {"large": {"limits": dict.fromkeys(limits, 0)}}
    async with running(server={"key": KEY}, limits=usual, tenants=own, alerts=alerts) as world:
        admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        callers = []
        for tenant in ("small", "large"):
            wanted = {"name": tenant, "role": "admin", "tenant": tenant}
            key = data_of(await admin.post("/keys", json=wanted), 201)["key"]
            callers.append(world.caller(headers={"Authorization": f"Bearer {key}"}))
        yield Two(world, *callers)


def check_refused(answer: httpx.Response, name: str, value: int, at_least: int = 1) -> None:
    """A problem that names the limit and says when to ask again."""
    assert answer.status_code == 429, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= at_least
    problem = answer.json()
    assert problem["limit"] == {"name": name, "value": value}
    assert problem["errors"][0]["code"] == "limit"
    assert f"limits.{name}" in problem["detail"]


async def used(caller: httpx.AsyncClient) -> dict[str, tuple[int, int | None]]:
    """By name the value of each limit, and how much of it is used."""
    limits = data_of(await caller.get("/stats"))["limits"]
    return {one["name"]: (one["value"], one["used"]) for one in limits}


async def test_jobs_beyond_the_limit_are_refused_one_by_one() -> None:
    """Alone and in arrays; what exists is answered as ever, and a destroyed one makes room."""
    async with two(jobs=3) as on:
        for number in range(2):
            data_of(await on.small.post(f"/jobs/job-{number}", json=definition()), 201)
        array = [definition(jobId=f"job-{number}") for number in (0, 7, 8, 9)]
        items = data_of(await on.small.post("/jobs", json=array))["items"]
        assert [one["status"] for one in items] == ["unchanged", "created", "refused", "refused"]
        assert items[2]["problem"]["limit"] == {"name": "tenant_jobs", "value": 3}
        check_refused(await on.small.post("/jobs/another", json=definition()), "tenant_jobs", 3)
        data_of(await on.small.post("/jobs/job-1", json=definition()))
        assert await used(on.small) == {"tenant_jobs": (3, 3)}
        assert await used(on.large) == {}
        items = data_of(await on.large.post("/jobs", json=array))["items"]
        assert {one["status"] for one in items} == {"created"}
        data_of(await on.small.delete("/jobs/job-0"))
        data_of(await on.small.post("/jobs/another", json=definition()), 201)
        lines = [keys for event, keys in on.world.log if event == "tenant_limited"]
        assert lines[0] == {"tenant": "small", "limit": "tenant_jobs", "value": 3, "times": 1}
        assert len(lines) == 1, "once, and counted in between"


async def test_a_limit_that_is_reached_is_told() -> None:
    """The operator by an alert, which names tenant and limit; the tenant by an event, and no other tenant."""
    alert = {"name": "ops", "on": ["limitReached"], "url": "service://jobswork/hook"}
    async with two(alert, jobs=1) as on, listening(on.world) as api, AsyncExitStack() as stack:
        keys = [dict(caller.headers) for caller in (on.small, on.large)]
        own, foreign = [await stack.enter_async_context(api.stream(headers=key)) for key in keys]
        data_of(await on.small.post("/jobs/one", json=definition()), 201)
        for number in range(5):
            check_refused(await on.small.post(f"/jobs/more-{number}", json=definition()), "tenant_jobs", 1)
        *_, event = await own.until("limitReached")
        assert (event["subject"], event["message"]) == ("small/tenant_jobs", "limits.tenant_jobs allows 1")
        for _ in range(30):
            await on.world.advance(0 if on.world.target.at("/hook") else 1)
        (seen,) = on.world.target.at("/hook")
        said = {name: seen.json[name] for name in ("kind", "subject", "count", "text")}
        assert said == {
            "kind": "limitReached",
            "subject": "small/tenant_jobs",
            "count": 1,
            "text": "[ops] The tenant small has reached a limit: limits.tenant_jobs allows 1.",
        }
        data_of(await on.large.post("/jobs/last", json=definition()), 201)
        assert [one["kind"] for one in await foreign.until("jobCreated")] == ["jobCreated"]


async def test_what_comes_at_one_moment_is_within_the_limit() -> None:
    """Alone and in arrays that have more than there is room for; what exists takes no room of another one."""
    async with two(jobs=5) as on:
        data_of(await on.small.post("/jobs/first", json=definition()), 201)
        again = [on.small.post("/jobs/first", json=definition()) for _ in range(20)]
        alone = [on.small.post(f"/jobs/alone-{number}", json=definition()) for number in range(3)]
        answers = [answer.status_code for answer in await asyncio.gather(*again, *alone)]
        assert answers == [200] * 20 + [201] * 3
        names = [[f"{row}-{number}" for number in range(10)] for row in range(10)]
        arrays = [[definition(jobId=name) for name in row] for row in names]
        found = await asyncio.gather(*(on.small.post("/jobs", json=array) for array in arrays))
        statuses = [one["status"] for answer in found for one in data_of(answer)["items"]]
        assert (statuses.count("created"), statuses.count("refused")) == (1, 99)
        ended = await asyncio.gather(
            *(on.small.delete(f"/jobs/alone-{number}") for number in range(3)),
            *(on.small.post(f"/jobs/late-{number}", json=definition()) for number in range(50)),
        )
        assert await used(on.small) == {"tenant_jobs": (5, 2 + sum(one.status_code == 201 for one in ended))}
        assert len(data_of(await on.small.get("/jobs"))["items"]) <= 5


async def test_declared_jobs_are_under_the_same_limit() -> None:
    """The first ones have room, a warning says how many do not; each scan looks whether there is some."""
    async with two(jobs=2) as on:
        timers = [definition(jobId=f"job-{number}") for number in range(5)]
        at = {"address": on.world.target.url, "timers": timers}
        worker = await by_service(on.world, on.small, "shop")
        for caller, path in (
            *((on.small, path) for path in ("shop", "shop", "shop?force=true")),
            (worker, "shop/instances/one"),
        ):
            answer = await caller.put(f"/services/{path}", json=at)
            assert answer.status_code in (200, 201), answer.text
            (warning,) = [one for one in answer.json()["warnings"] if one["code"] == "limit"]
            assert warning["message"].startswith("3 of the declared jobs are not made")
            assert "2 jobs (limits.tenant_jobs)" in warning["message"]
        data_of(await on.world.client.post("/jobs/check-timers/trigger", headers=BY_ADMIN))
        await on.world.settle()
        assert len(data_of(await on.small.get("/jobs"))["items"]) == 2


async def test_executions_a_minute_refuse_triggers_and_delay_firings() -> None:
    """Of one tenant alone; the firings come when there is room, and are late in the ledger."""
    async with two(executions_per_minute=3) as on:
        timer = {"dueTime": "10s", "period": "0s"}
        for caller in (on.small, on.large):
            data_of(await caller.post("/jobs/one", json=definition()), 201)
            array = [definition(jobId=f"due-{number}", timer=timer) for number in range(3)]
            data_of(await caller.post("/jobs", json=array))
            for _ in range(2):
                data_of(await caller.post("/jobs/one/trigger"))
                await on.world.settle()
        await on.world.advance(15)
        assert (await states(on.small), await states(on.large)) == (3, 5)
        check_refused(await on.small.post("/jobs/one/trigger"), "tenant_executions_per_minute", 3)
        replayed = data_of(await on.small.get("/executions"))["items"][0]["executionId"]
        check_refused(
            await on.small.post(f"/executions/{replayed}/replay"), "tenant_executions_per_minute", 3
        )
        data_of(await on.large.post("/jobs/one/trigger"))
        await on.world.advance(120)
        assert await states(on.small) == 5
        outcomes = []
        for number in range(3):
            (firing,) = data_of(await on.small.get(f"/jobs/due-{number}/firings"))["items"]
            outcomes.append(firing["outcome"])
        assert sorted(outcomes) == ["fired", "late", "late"]


async def test_a_job_that_is_faster_than_the_limit_is_held_to_it() -> None:
    """Of what has become due meanwhile no more begins in one turn than there is room for, nor of triggers."""
    async with two(executions_per_minute=3) as on:
        misfires = {"late": {"graceSeconds": 600}, "caught": {"graceSeconds": 1, "policy": "fire_all"}}
        for caller in (on.small, on.large):
            for name, misfire in misfires.items():
                members = {"timer": {"period": "1s", "misfire": misfire}, "overlapPolicy": "allow"}
                data_of(await caller.post(f"/jobs/{name}", json=definition(**members)), 201)
            data_of(await caller.post("/jobs/one", json=definition(overlapPolicy="allow")), 201)
            for _ in range(20):
                data_of(await caller.post("/jobs/one/trigger?delaySeconds=50"))
        await on.world.advance(59)
        assert (await states(on.small), await states(on.large)) == (3, 60 * 2 + 20)
        await on.world.advance(60)
        assert await states(on.small) == 6
        refused = await on.small.post("/jobs/one/trigger")
        check_refused(refused, "tenant_executions_per_minute", 3)
        for _ in range(20):
            assert (await on.small.post("/jobs/one/trigger")).headers["retry-after"] == refused.headers[
                "retry-after"
            ]
        await on.world.advance(int(refused.headers["retry-after"]))
        assert await states(on.small) >= 7


async def states(caller: httpx.AsyncClient) -> int:
    """How many executions have succeeded."""
    items: list[Any] = data_of(await caller.get("/executions?state=succeeded&limit=500"))["items"]
    return len(items)


async def test_triggers_that_would_wait_are_refused_when_too_many_wait() -> None:
    """Delayed ones, and those behind an execution; one that begins at once is none of them."""
    async with two(waiting=2) as on:
        for caller in (on.small, on.large):
            for job in ("one", "two"):
                data_of(await caller.post(f"/jobs/{job}", json=definition()), 201)
            data_of(await caller.post("/jobs/one/trigger?delaySeconds=60"))
        later, key = "/jobs/one/trigger?delaySeconds=60", {"Idempotency-Key": "second"}
        begun = [data_of(await caller.post(later, headers=key)) for caller in (on.small, on.large)]
        check_refused(await on.small.post(later), "tenant_waiting", 2)
        assert data_of(await on.small.post(later, headers=key)) == begun[0], "it is there already"
        data_of(await on.large.post("/jobs/one/trigger?delaySeconds=60"))
        data_of(await on.small.post("/jobs/two/trigger"))
        assert await used(on.small) == {"tenant_waiting": (2, 2)}
        await on.world.advance(61)
        data_of(await on.small.post("/jobs/one/trigger?delaySeconds=60"))


async def test_triggers_at_one_moment_wait_as_many_as_may() -> None:
    """Of one job that does nothing yet: the first one begins, the next ones wait, the others are refused."""
    async with two(waiting=3) as on:
        data_of(await on.small.post("/jobs/one", json=definition(overlapPolicy="queue")), 201)
        on.world.target.answers("/run", HELD)
        answers = await asyncio.gather(*(on.small.post("/jobs/one/trigger") for _ in range(40)))
        assert sum(answer.status_code == 200 for answer in answers) == 1 + 3
        for answer in answers:
            if answer.status_code != 200:
                check_refused(answer, "tenant_waiting", 3)
        for policy in ("allow", "skip", "cancel_running"):
            data_of(await on.small.post(f"/jobs/{policy}", json=definition(overlapPolicy=policy)), 201)
            for _ in range(3):
                data_of(await on.small.post(f"/jobs/{policy}/trigger"))
        several = definition(overlapPolicy="queue", maxConcurrency=2)
        data_of(await on.small.post("/jobs/several", json=several), 201)
        on.world.target.answers("/run", HELD, HELD)
        for _ in range(2):
            data_of(await on.small.post("/jobs/several/trigger"))
        check_refused(await on.small.post("/jobs/several/trigger"), "tenant_waiting", 3)
        on.world.target.release()


async def test_the_history_of_a_tenant_is_kept_up_to_its_limit() -> None:
    """The clean-up removes the oldest executions beyond it, whatever their age."""
    async with two(history_executions=3) as on:
        for caller in (on.small, on.large):
            data_of(await caller.post("/jobs/one", json=definition()), 201)
            for _ in range(6):
                data_of(await caller.post("/jobs/one/trigger"))
                await on.world.settle()
                await on.world.advance(1)
        data_of(await on.world.client.post("/jobs/clean/trigger", headers=BY_ADMIN))

        async def is_clean() -> bool:
            return await states(on.small) == 3

        await on.world.settle()
        await on.world.until(is_clean)
        kept = data_of(await on.small.get("/executions"))["items"]
        assert [one["executeNumber"] for one in kept] == [6, 5, 4]
        assert await states(on.large) == 6


async def test_the_system_s_own_jobs_use_nothing_of_the_limits() -> None:
    """Nor do those of alerts: what they have kept pushes nothing out of the tenant `default`."""
    most = 3
    limits = {
        "tenant_history_executions": 2,
        "tenant_jobs": 1,
        "tenant_executions_per_minute": most,
    }
    alert = {"name": "mail", "on": ["jobPaused"], "url": "http://127.0.0.1:1/"}
    async with running(limits=limits, alerts=[alert]) as world:
        data_of(await world.client.post("/jobs/one", json=definition()), 201)
        data_of(await world.client.post("/jobs/one/trigger"))
        await world.settle()
        for job in ("check-timers", "check-timers", "check-timers", "clean"):
            await world.advance(1)
            data_of(await world.client.post(f"/jobs/{job}/trigger"))
            await world.settle()

        async def has_cleaned() -> bool:
            cleaned = data_of(await world.client.get("/executions?jobId=clean"))["items"]
            return [one["state"] for one in cleaned] == ["succeeded"]

        await world.until(has_cleaned)
        assert await states(world.client) == 1
        check_refused(await world.client.post("/jobs/two", json=definition()), "tenant_jobs", 1)
        assert (await used(world.client))["tenant_jobs"] == (1, 1)
        for _ in range(most - 1):
            data_of(await world.client.post("/jobs/one/trigger"))
            await world.settle()
        name = "tenant_executions_per_minute"
        check_refused(await world.client.post("/jobs/one/trigger"), name, most)
        assert (await used(world.client))[name] == (most, most)
        assert data_of(await world.client.get("/stats"))["jobs"] == {"active": 1}
