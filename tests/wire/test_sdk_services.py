"""Services of the SDK in the real registry: declared, called, drained, gone (SPEC sections 11, 13, 16)."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from client_sdk import Client, Execution, JobFailed, Service, Verifier
from client_sdk.errors import Absent, Invalid
from client_sdk.models import ServiceDeclaration
from tests.unit.client_sdk.lines import serving
from tests.unit.client_sdk.signed import NEW, OLD
from tests.wire.service import SERVED, World, data_of, definition, running
from tests.wire.target import Reply, Target

EXTERNAL = {"period": "external"}


@asynccontextmanager
async def served(world: World, **options: Any) -> AsyncIterator[tuple[Service, Client]]:
    """An instance of the service `files` on loopback, not started yet, and a client."""
    box: dict[str, Any] = {}

    async def forward(scope: Any, receive: Any, send: Any) -> None:
        await box["service"](scope, receive, send)

    async with (
        serving(forward) as url,
        Client(SERVED, transport=httpx.ASGITransport(world.service.api)) as client,
    ):
        given = {"address": url, "signals": (), "heartbeat_seconds": 1_000, "clock": world.seconds}
        box["service"] = service = Service("files", client=client, **(given | options))
        try:
            yield service, client
        finally:
            await service.stop()


class NotingVerifier(Verifier):
    """Keeps the calls that it has taken."""

    def __init__(self, *secrets: str, clock: Callable[[], float]) -> None:
        super().__init__(*secrets, clock=clock)
        self.taken: list[tuple[dict[str, str], bytes]] = []

    def accept(self, headers: Mapping[str, str], body: bytes) -> str:
        message_id = super().accept(headers, body)
        self.taken.append((dict(headers), body))
        return message_id


async def test_a_service_takes_what_its_scheduler_signs_and_nothing_else() -> None:
    """Also while a secret is replaced; what is forged, changed, replayed or late is 401 and runs nothing."""
    times: list[str] = []
    async with running(secrets={"default": {"files": [NEW, OLD]}}) as world:
        verifier = NotingVerifier(OLD, clock=world.seconds)
        async with served(world, sign="files", verifier=verifier) as (service, client):

            @service.job(job_id="note", retry=[{"errorEquals": "503", "intervalSeconds": 0}])
            def note(execution: Execution, name: str = "x") -> None:
                times.append(execution.idempotency_key)
                if len(times) == 1:
                    raise JobFailed("not yet", status=503)

            await service.start()
            fired = await client.jobs.trigger("note", {"name": "a"})
            assert (await client.wait_for(fired, timeout=20)).state == "succeeded"
            assert (len(verifier.taken), len(set(times))) == (2, 1)  # a genuine repetition
            (headers, body), url = verifier.taken[-1], f"{service.definitions()[0]['request'][0]['url']}"
            (instance,) = (await client.services.get("files")).instances
            place = f"{instance.address}{url.removeprefix('service://files')}"
            unsigned = {name: value for name, value in headers.items() if not name.startswith("webhook-")}
            forged = headers | {"webhook-signature": "v1," + "A" * 43 + "="}
            async with httpx.AsyncClient() as stranger:
                for given, content in (
                    (headers, body), (unsigned, body), (forged, body), (headers, b'{"name":"b"}'),
                ):  # fmt: skip
                    assert (await stranger.post(place, headers=given, content=content)).status_code == 401
                await world.advance(400)
                late = await stranger.post(place, headers=headers, content=body)
                assert (late.status_code, "too old" in late.json()["detail"]) == (401, True)
            assert len(times) == 2


async def scan(world: World, client: Client) -> None:
    """One run of the system job that makes jobs of what is declared."""
    fired = await client.jobs.trigger("check-timers")
    assert (await client.wait_for(fired, timeout=20)).state == "succeeded"
    await world.settle()


async def test_declared_jobs_become_jobs_and_are_called() -> None:
    """From `@job` over the registry to a call of this instance; its job exists once it is registered."""
    async with running() as world, served(world) as (service, client):

        @service.job(job_id="sum")
        def add(left: int, right: int = 1) -> int:
            """Adds."""
            return left + right

        await service.start()
        made = await client.jobs.get("sum")
        assert made.definition["jobDescription"] == "Adds."
        ended = await client.wait_for(await client.jobs.trigger("sum", {"left": 2}), timeout=20)
        assert ended.state == "succeeded"
        assert [one async for one in client.services.drift("files")] == []


def own(job_id: str) -> dict[str, Any]:
    """A job that calls the service which posts it."""
    return {"jobId": job_id, "jobName": "Own", "timer": EXTERNAL, "request": [{"url": "service:/own/run"}]}


async def test_a_job_that_a_service_posts_calls_that_service() -> None:
    """`service:/path` is the service of `own_jobs`, or of `Client(service=…)` (SPEC section 9)."""
    async with running() as world, served(world, address=world.target.url) as (service, client):
        await service.start()
        with pytest.raises(Invalid):
            await client.jobs.create(own("nobody"))
        transport = httpx.ASGITransport(world.service.api)
        async with Client(SERVED, transport=transport, service="files") as poster:
            for jobs, name in ((service.own_jobs, "one"), (poster.jobs, "two")):
                await jobs.create(own(name))
                [item] = await jobs.create_many([own(f"{name}-many")])
                assert item.status == "created"
                await client.jobs.create({**own(f"{name}-later"), "request": [{"url": "service://files/x"}]})
                await jobs.update(f"{name}-later", own(f"{name}-later"))
                for job_id in (name, f"{name}-many", f"{name}-later"):
                    ended = await client.wait_for(await client.jobs.trigger(job_id), timeout=20)
                    assert ended.state == "succeeded", job_id
        assert len(world.target.at("/own/run")) == 6


async def test_a_wrong_path_in_the_url_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Registration at `http://HOST:PORT/jobs` fails for good: a 404 of no route does not mean "register"."""
    async with running() as world:
        transport = httpx.ASGITransport(world.service.api)
        async with Client(f"{SERVED}/jobs", transport=transport) as client:
            service = Service("files", client=client, address="http://10.0.0.7:9000", signals=())
            await service.start()
            said = [
                one.getMessage() for one in caplog.records if "registration of files/" in one.getMessage()
            ]
            await service.stop()
        assert "answered 404, but not as a scheduler does: check the url" in said[0]


async def test_an_instance_is_known_while_it_runs() -> None:
    """With what it said of itself; afterwards it is gone."""
    about = {"instance_id": "one", "tags": ["big"], "capacity": 3, "description": "the first"}
    settings = ServiceDeclaration(route="least_busy")
    async with running() as world, served(world, settings=settings, **about) as (service, client):
        await service.start()
        known = await client.services.get("files")
        assert known.route == "least_busy"
        [instance] = known.instances
        assert (instance.instance_id, instance.tags, instance.capacity) == ("one", ["big"], 3)
        assert [line.name async for line in client.services.list()] == ["files"]
        await client.services.heartbeat("files", "one", load=2, draining=True)
        [draining] = (await client.services.get("files")).instances
        assert (draining.state, draining.load) == ("draining", 2)
        await service.stop()
        assert (await client.services.get("files")).instances == []
        with pytest.raises(Absent):
            await client.services.heartbeat("files", "one")


async def test_a_removed_job_is_paused() -> None:
    """The next version of the service declares it no more; the one that it has is called."""
    async with running() as world, served(world) as (service, client):
        service.job(job_id="old")(lambda: None)
        await service.start()
        await scan(world, client)
        assert (await client.jobs.get("old")).state == "active"
        await service.stop()
        async with served(world) as (newer, _):
            newer.job(job_id="new")(lambda: None)
            await newer.start()
            await scan(world, client)
            assert (await client.jobs.get("old")).state == "paused"
            assert (await client.jobs.get("new")).state == "active"


GONE = Reply(410, headers={"X-Job-State": "gone"})


def declared(job_id: str = "shop.new", **members: Any) -> dict[str, Any]:
    """A job as the newer version declares it."""
    return definition(jobId=job_id, request=[{"url": "service:/run"}]) | members


async def register(world: World, name: str, target: Target, *timers: dict[str, Any]) -> None:
    """The full registration of an instance."""
    said = {"address": target.url, "timers": list(timers)}
    response = await world.client.put(f"/services/shop/instances/{name}", json=said)
    assert response.status_code in {200, 201}, response.text


async def deploy(world: World, newer: Target) -> None:
    """An older instance, which the failover order asks first, and a newer one with a new job."""
    world.instances["new"] = newer
    world.target.always("/run", GONE)
    await register(world, "a-old", world.target)
    await register(world, "b-new", newer, declared())
    data_of(await world.client.put("/services/shop", json={"route": "failover"}))


async def execute(world: World) -> dict[str, Any]:
    """One execution of the new job, in full."""
    started = data_of(await world.client.post("/jobs/shop.new/trigger", json={}))
    await world.settle()
    return await world.ended(started["executionId"])


def paused(world: World) -> list[dict[str, Any]]:
    """What the log of the service says of paused jobs."""
    return [keys for event, keys in world.log if event == "job_paused"]


async def test_a_new_job_reaches_the_instance_that_declares_it() -> None:
    """The older instance does not know it: the newer one gets it in the same attempt, and the job goes on."""
    async with running() as world, Target(lambda: world.clock.now().wall) as newer:
        await deploy(world, newer)
        ended = await execute(world)
        assert (ended["state"], len(ended["attempts"])) == ("succeeded", 1)
        assert [step["instance"] for step in ended["attempts"][0]["steps"]] == ["b-new"]
        assert (len(world.target.at("/run")), len(newer.at("/run"))) == (1, 1)
        keys = [seen.at("/run")[0].headers["idempotency-key"] for seen in (world.target, newer)]
        assert keys[0] == keys[1]
        assert data_of(await world.client.get("/jobs/shop.new"))["state"] == "active"
        assert paused(world) == []
        # None knows it any more: each is asked once, the job is paused, and the log of the service says so
        newer.always("/run", GONE)
        ended = await execute(world)
        assert (ended["state"], ended["reason"], ended["error"]) == ("terminated", "gone", "410")
        assert (len(world.target.at("/run")), len(newer.at("/run"))) == (2, 2)
        job = data_of(await world.client.get("/jobs/shop.new"))
        assert (job["state"], job["pauseReason"]) == ("paused", "gone")
        assert paused(world) == [{"jobId": "shop.new", "reason": "gone", "execution": 2}]


async def test_declared_jobs_fire_on_the_days_of_a_calendar() -> None:
    """`timer.calendar` is declared as it is posted; it follows a change; an unknown one is refused."""
    async with running() as world, served(world) as (service, client):

        @service.job(job_id="office", timer={"period": "0 0 9 * * ?", "calendar": "office"})
        def note() -> None:
            """At nine on working days."""

        declared = ServiceDeclaration.model_validate({"timers": service.definitions()})
        with pytest.raises(Invalid) as refused:
            await client.services.put("files", declared)
        assert [(one.pointer, one.code) for one in refused.value.errors] == [
            ("/timers/0/timer/calendar", "unknown_calendar")
        ]
        await client.calendars.put("office", {"week": [1, 2, 3, 4, 5], "free": ["2026-01-01"]})
        await service.start()
        assert str((await client.jobs.get("office")).next_fire_time) == "2026-01-02 09:00:00+00:00"
        await client.calendars.put("office", {"free": ["2026-01-01/2026-01-05"]})
        await world.settle()
        assert str((await client.jobs.get("office")).next_fire_time) == "2026-01-06 09:00:00+00:00"
