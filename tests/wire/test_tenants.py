"""Two tenants with the same ids, services, queues: neither sees anything of the other (SPEC section 14).

What they do at random, wherever jobs live: `tests/wire/processes/test_tenants_at_random.py`.
"""

from typing import Any

from tests.wire.service import World, data_of, definition, running

KEY = "the-key-of-the-settings"
TENANTS = ("crimson", "azure")


class Tenant:
    """A caller of one tenant, whose every text says which one it is."""

    def __init__(self, world: World, name: str, key: str) -> None:
        self.name = name
        self.client = world.caller(headers={"Authorization": f"Bearer {key}"})

    def job(self, **members: Any) -> dict[str, Any]:
        """A definition that says whose it is."""
        marked = {"jobName": f"of {self.name}", "creator": self.name, "creatorName": self.name}
        return definition(**marked, labels={"mark": self.name}, **members)


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
