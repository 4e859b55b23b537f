"""Two tenants with the same ids, services, queues: neither sees anything of the other (SPEC section 14)."""

import asyncio
import random
import re
from typing import Any

import httpx
import pytest

from tests.wire.event_stream import listening
from tests.wire.service import World, data_of, definition, running

KEY = "the-key-of-the-settings"
TENANTS = ("crimson", "azure")
READS = (
    "/jobs", "/jobs?text=crimson", "/jobs?text=azure", "/jobs?definitions=true", "/jobs/one",
    "/jobs/one/executions", "/jobs/one/next", "/jobs/one/firings", "/jobs/one/revisions",
    "/jobs/one/statistics", "/counts/jobs", "/executions", "/counts/executions", "/series/executions",
    "/outcomes?jobId=one&jobId=two", "/deliveries", "/counts/deliveries", "/upcoming", "/counts/upcoming",
    "/stats", "/statistics", "/services", "/services/shop", "/services/shop/drift", "/queues", "/queues/work",
    "/counts/queues", "/keys", "/session", "/main/execution?jobId=one",
    "/main/getChildJobLogs?parentJobId=one&execution=1",
)  # fmt: skip
OF_PLATFORM = ("/nodes", "/settings", "/metrics", "/alerts")


class Tenant:
    """A caller of one tenant, whose every text says which one it is."""

    def __init__(self, world: World, name: str, key: str) -> None:
        self.name, self.other = name, next(one for one in TENANTS if one != name)
        self.headers = {"Authorization": f"Bearer {key}"}
        self.client = world.caller(headers=self.headers)
        self.random = random.Random(name)
        self.done = 0

    def job(self, **members: Any) -> dict[str, Any]:
        """A definition that says whose it is."""
        marked = {"jobName": f"of {self.name}", "creator": self.name, "creatorName": self.name}
        return definition(**marked, labels={"mark": self.name}, **members)

    async def act(self) -> None:
        """One change at random; whatever it is answered says nothing of the other."""
        job_id = self.random.choice(["one", "two", "three"])
        queue = {"request": [{"url": "queue://work", "body": {"of": self.name}}]}
        notified = {"notification": [{"url": f"http://127.0.0.1:1/{self.name}"}]}
        acts: list[tuple[str, str, Any]] = [
            ("POST", f"/jobs/{job_id}", self.job()),
            ("POST", f"/jobs/{job_id}", self.job(timer={"period": "1h"})),
            ("POST", f"/jobs/{job_id}/update", self.job(**queue)),
            ("POST", f"/jobs/{job_id}/update", self.job(**notified)),
            ("POST", "/jobs?onExisting=update", [{**self.job(), "jobId": job_id}]),
            ("POST", f"/jobs/{job_id}/trigger", {"of": self.name}),
            ("POST", f"/jobs/{job_id}/trigger", {"of": self.name}),
            ("PUT", f"/jobs/{job_id}?active=0", None),
            ("PUT", f"/jobs/{job_id}?active=1", None),
            ("DELETE", f"/jobs/{job_id}", None),
            ("PUT", "/services/shop", {"tags": [self.name], "timers": [{**self.job(), "jobId": "declared"}]}),
            (
                "PUT",
                "/services/shop/instances/i",
                {"description": self.name, "address": "http://127.0.0.1:1"},
            ),
            ("POST", "/queues/work/claim", {"instanceId": f"worker-{self.name}", "max": 2}),
            ("POST", f"/queues/work/{self.random.choice(['pause', 'resume'])}", None),
            ("POST", "/bulk/jobs", {"action": "pause", "select": {"filter": {}}, "dryRun": True}),
        ]
        method, path, body = self.random.choice(acts)
        headers = {"Idempotency-Key": "the same"} if self.random.random() < 0.2 else {}
        answer = await self.client.request(method, path, json=body, headers=headers)
        self.judge(f"{method} {path}", answer)
        self.done += answer.is_success

    def judge(self, asked: str, answer: httpx.Response) -> None:
        """Raises AssertionError where it has the name of the other, or a fault."""
        assert answer.status_code < 500, (asked, answer.text)
        assert re.search(self.other, answer.text) is None, (self.name, asked, answer.text)

    async def read_all(self) -> None:
        """Everything that can be read; at most what its own jobs are."""
        for path in READS:
            answer = await self.client.get(path)
            self.judge(path, answer)
        for path in OF_PLATFORM:
            assert (await self.client.get(path)).status_code == 404, path
        for path in ("/jobs", "/executions", "/deliveries"):
            items = data_of(await self.client.get(path, params={"limit": 500}))["items"]
            counted = data_of(await self.client.get(f"/counts{path}"))
            states = counted["byState"]
            assert sum(states.values()) == len(items), (path, counted)


async def make(world: World, name: str) -> Tenant:
    """An admin of a new tenant."""
    admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
    wanted = {"name": name, "role": "admin", "tenant": name}
    return Tenant(world, name, data_of(await admin.post("/keys", json=wanted), 201)["key"])


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_two_tenants_see_nothing_of_each_other(seed: int) -> None:
    """Whatever both do at random under the same names, over every list, count, answer and event."""
    async with running(server={"key": KEY}) as world, listening(world) as served:
        tenants = [await make(world, name) for name in TENANTS]
        for number, tenant in enumerate(tenants):
            tenant.random = random.Random(seed + number)
        frames: list[Any] = []
        async with served.stream(headers=tenants[0].headers) as stream:

            async def collect() -> None:
                while True:
                    frames.append(await stream.next())

            collecting = asyncio.ensure_future(collect())
            for _ in range(40):
                await asyncio.gather(*(tenant.act() for tenant in tenants))
            await world.advance(1)
            for tenant in tenants:
                assert tenant.done > 10
                await tenant.read_all()
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
        own = {
            one["executionId"]
            for one in data_of(await tenants[0].client.get("/executions?limit=500"))["items"]
        }
        assert frames
        assert {frame["executionId"] for frame in frames if frame.get("executionId")} <= own


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
        assert data_of(await blue.client.get("/jobs"))["items"] == []
        assert data_of(await red.client.get(f"/executions/{execution}"))["executionId"] == execution


async def test_a_job_of_a_tenant_does_all_that_one_of_default_does() -> None:
    """Its environment, services, queues and feedback are its own tenant's."""
    env = {"default": {"PLACE": "default"}, "crimson": {"PLACE": "crimson"}}
    async with running(server={"key": KEY}, env=env) as world:
        red, blue = [await make(world, name) for name in TENANTS]
        at = {"address": world.target.url}
        data_of(await red.client.put("/services/shop/instances/i", json=at), 201)
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
