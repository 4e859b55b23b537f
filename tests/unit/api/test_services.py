"""Services over the API: registered, with their timers as texts; listed, removed (SPEC sections 10, 13)."""

import json
from http import HTTPStatus
from typing import Any

import httpx
import msgspec
import pytest

from scheduler_service.api.registrations import MAX_TIMERS, PostedRegistration, read_registration
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem
from scheduler_service.domain.registered_services import Service
from scheduler_service.domain.turn_events import Activated, Paused
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.security.callers import Caller, Role
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.services.registry import digest_of
from scheduler_service.transport.errors import RefusedTarget
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import PATH, World, declared, definition, pointers, put
from tests.unit.security.memory_keys import MemoryKeys


async def test_a_service_is_registered_read_listed_and_removed(client: httpx.AsyncClient) -> None:
    """`PUT /services/{name}` with all that a service says of itself (SPEC section 13)."""
    said = {
        "address": "http://10.0.0.7:8080/base/",
        "route": "least_busy",
        "tags": ["eu"],
        "timers": [declared("a")],
        "onChange": "keep",
        "graceSeconds": 1.5,
        "rateLimit": {"count": 10, "perSeconds": 0.5},
        "signing": "hooks",
    }
    response = await client.put(PATH, json=said)
    assert response.status_code == 201
    assert response.headers["location"] == PATH
    read = (await client.get(PATH)).json()["data"]
    assert read == response.json()["data"]
    assert {name: read[name] for name in said} == said | {"address": "http://10.0.0.7:8080/base"}
    assert (read["instances"], read["instanceCount"], read["onlineCount"]) == ([], 0, 0)
    assert (await client.put(PATH, json=said)).status_code == 200
    await client.put("/services/another", json={})
    page = (await client.get("/services?limit=1")).json()["data"]
    assert [one["name"] for one in page["items"]] == ["another"]
    page = (await client.get(f"/services?limit=1&cursor={page['nextCursor']}")).json()["data"]
    assert ([one["name"] for one in page["items"]], page["nextCursor"]) == (["billing"], None)
    assert (await client.delete(PATH)).json()["data"] == {"name": "billing"}
    for gone in (await client.get(PATH), await client.delete(PATH), await client.get(f"{PATH}/drift")):
        assert (gone.status_code, pointers(gone)) == (404, [("/name", "absent")])


async def test_what_is_left_out_is_the_default_but_for_the_timers(client: httpx.AsyncClient) -> None:
    """A PUT replaces; without `timers` those that are declared stay (SPEC section 13)."""
    await put(client, declared("a"), status=201, address="http://x.test", onChange="keep")
    response = (await client.put(PATH, json={})).json()["data"]
    assert [timer["jobId"] for timer in response["timers"]] == ["a"]
    assert (response["address"], response["onChange"], response["graceSeconds"]) == (None, "update", 86_400)
    assert response["signing"] is None
    assert (await put(client))["timers"] == []


async def test_a_registration_is_shown_before_it_is_made(client: httpx.AsyncClient, world: World) -> None:
    """As it would be, with its jobs checked; nothing is changed (SPEC section 16)."""
    said = {"address": "http://10.0.0.7:8080/base/", "timers": [declared("a")], "graceSeconds": 5}
    members = {"address": "http://10.0.0.7:8080/base", "onChange": "update", "graceSeconds": 5, "tags": []}
    for is_new in (True, False):
        turns, lines = world.turns, len(world.audit.lines)
        shown = (await client.post(f"{PATH}/preview", json=said)).json()["data"]
        assert {name: shown[name] for name in members} == members
        assert (shown["name"], shown["isNew"]) == ("billing", is_new)
        assert (world.turns, len(world.audit.lines)) == (turns, lines)
        assert (await client.get(PATH)).status_code == (404 if is_new else 200)
        await client.put(PATH, json=said)
    wrong = await client.post(f"{PATH}/preview", json={"timers": [declared("a", qos=7)], "signing": "none"})
    assert pointers(wrong) == [("/signing", "unknown_secret")]
    wrong = await client.post(f"{PATH}/preview", json={"timers": [declared("a", qos=7)]})
    assert [pointer for pointer, _ in pointers(wrong)] == ["/timers/0/qos"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            {"timers": [declared("a"), {"jobId": "b"}]},
            [("/timers/1/jobName", "required"), ("/timers/1/request", "required")],
        ),
        ({"timers": [declared("a", request=[{"url": "ftp://x"}])]}, [("/timers/0/request/0/url", "invalid")]),
        (
            {"timers": [declared("a", timer={"period": "0 0 0 31 2 ?"})]},
            [("/timers/0/timer/period", "never_fires")],
        ),
        ({"timers": [declared("a"), declared("a")]}, [("/timers/1/jobId", "duplicate")]),
        ({"timers": [declared("clean")]}, [("/timers/0/jobId", "reserved")]),
        ({"timers": [definition()]}, [("/timers/0/jobId", "required")]),
        ({"timers": [1]}, [("/timers/0", "type")]),
        ({"timers": [declared("a", jobNam="x")]}, [("/timers/0/jobNam", "unknown_field")]),
        ({"address": "ftp://x"}, [("/address", "invalid")]),
        ({"address": "http://a@b"}, [("/address", "invalid")]),
        ({"address": "http://x.test/?a=1"}, [("/address", "invalid")]),
        ({"route": "nearest"}, [("/route", "choice")]),
        ({"onChange": "ask"}, [("/onChange", "choice")]),
        ({"graceSeconds": -1}, [("/graceSeconds", "range")]),
        ({"signing": "secret"}, [("/signing", "unknown_secret")]),
        ({"owner": "me"}, [("/owner", "unknown_field")]),
        ({"tags": ["x"] * 101}, [("/tags", "too_many")]),
        ({"tags": ["ok", "x" * 129, " "]}, [("/tags/1", "too_long"), ("/tags/2", "empty")]),
        ({"rateLimit": {"count": 1, "perSeconds": 0.09}}, [("/rateLimit/perSeconds", "range")]),
        ({"rateLimit": {"count": 0, "perSeconds": 1}}, [("/rateLimit/count", "range")]),
    ],
)
async def test_what_is_wrong_is_named(
    client: httpx.AsyncClient, body: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    """Declared definitions are judged as jobs are, each problem below `/timers/INDEX`; nothing is kept."""
    response = await client.put(PATH, json=body)
    assert (response.status_code, pointers(response)) == (422, found)
    assert (await client.get(PATH)).status_code == 404


@each_row("name", ["127.0.0.1", "2130706433", "shop.0x7f", "shop-", "shop."])
async def test_a_new_service_has_a_name_that_a_job_may_call(name: str) -> None:
    """What `service://` refuses is not registered, and what is registered stays (SPEC section 13)."""
    world = World()
    async with world.client() as client:
        instance = {"address": "http://10.1.2.3:1"}
        for path, body in ((f"/services/{name}", {}), (f"/services/{name}/instances/i", instance)):
            assert pointers(await client.put(path, json=body)) == [("/name", "pattern")]
        called = definition(request=[{"url": f"service://{name}/x"}])
        assert pointers(await client.post("/jobs/a", json=called)) == [("/request/0/url", "invalid")]
        await world.registry.register(Service(tenant="default", name=name), None)
        assert (await client.put(f"/services/{name}", json={})).status_code == 200


async def test_a_bad_address_is_offered_what_an_address_may_be(client: httpx.AsyncClient) -> None:
    """A base address is `http(s)`; the schemes of a job's URL are none of it (SPEC section 13)."""
    answer = await client.put("/services/own", json={"address": "ftp://x"})
    message = "address 'ftp://x' is refused: it begins with neither http:// nor https://"
    assert answer.json()["errors"][0]["message"] == message


async def test_a_page_of_services_ends_early_where_they_are_large(client: httpx.AsyncClient) -> None:
    """At 4 MiB; the next page goes on behind it."""
    tags = [f"{number:02}{'ü' * 126}" for number in range(100)]
    names = [f"s{number:03}" for number in range(170)]
    for name in names:
        assert (await client.put(f"/services/{name}", json={"tags": tags})).status_code == 201
    first = (await client.get("/services?limit=500")).json()["data"]
    assert 160 < len(first["items"]) < 170
    rest = (await client.get(f"/services?limit=500&cursor={first['nextCursor']}")).json()["data"]
    assert [one["name"] for one in first["items"] + rest["items"]] == names
    assert rest["nextCursor"] is None


SAID = {"timers": [declared("a")]}


async def state(client: httpx.AsyncClient) -> str:
    return str((await client.get("/jobs/a")).json()["data"]["state"])


async def test_a_new_instance_starts_a_job_that_was_gone(world: World, client: httpx.AsyncClient) -> None:
    """The next scan does; a repeated registration starts nothing, and a pause by a person stays."""
    await client.put(f"{PATH}/instances/old", json=SAID)
    await world.deliver("a", Command(Paused(drain=True, reason="gone")))
    await client.put(f"{PATH}/instances/old", json=SAID)
    await world.scan()
    assert await state(client) == "paused"
    await client.put(f"{PATH}/instances/other", json={})
    await world.scan()
    assert await state(client) == "paused"
    await client.put(f"{PATH}/instances/new", json=SAID)
    await world.scan()
    assert await state(client) == "active"
    await world.deliver("a", Command(Paused(drain=True, reason="gone")))
    await world.scan()
    assert await state(client) == "paused"
    await world.deliver("a", Command(Activated()))
    await client.put("/jobs/a?active=0")
    await client.put(f"{PATH}/instances/newer", json=SAID)
    await world.scan()
    assert await state(client) == "paused"


@pytest.mark.parametrize("path", [PATH, f"{PATH}/instances/old"])
async def test_a_changed_declaration_starts_it(path: str, world: World, client: httpx.AsyncClient) -> None:
    """At once: the registration is scanned before it is answered."""
    await client.put(path, json=SAID)
    await world.deliver("a", Command(Paused(drain=True, reason="gone")))
    await client.put(path, json={"timers": [declared("a"), declared("b")]})
    assert await state(client) == "active"


async def test_a_failed_scan_is_made_up_for(world: World, client: httpx.AsyncClient) -> None:
    """The store did not take it: the next scan starts the job."""
    await client.put(f"{PATH}/instances/old", json=SAID)
    await world.deliver("a", Command(Paused(drain=True, reason="gone")))
    await client.put(f"{PATH}/instances/new", json=SAID)
    world.fault = StoreUnavailable("the disk is full")
    with pytest.raises(StoreUnavailable):
        await world.scan()
    world.fault = None
    await world.scan()
    assert await state(client) == "active"


async def test_instances_register_live_and_leave(world: World, client: httpx.AsyncClient) -> None:
    """Heartbeat every 3 s, offline after 10 s, deregistration before it stops (SPEC section 13)."""
    path = f"{PATH}/instances/i:1"
    said = {"address": "http://10.0.0.7:81/", "tags": ["eu"], "capacity": 2, "description": "first"}
    response = await client.put(path, json=said)
    assert response.status_code == 201
    shown = response.json()["data"]
    assert {name: shown[name] for name in said} == said | {"address": "http://10.0.0.7:81"}
    assert (shown["state"], shown["heartbeatSeconds"], shown["offlineSeconds"]) == ("online", 3, 10)
    assert (await client.put(path, json=said)).status_code == 200
    beat = await client.post(f"{path}/heartbeat", json={"load": 1.5, "draining": True})
    assert beat.json()["data"] == {"instanceId": "i:1", "state": "draining"}
    service = (await client.get(PATH)).json()["data"]
    assert (service["instanceCount"], service["onlineCount"]) == (1, 0)
    assert [(one["state"], one["load"]) for one in service["instances"]] == [("draining", 1.5)]
    again = await client.put(path, json=said)
    assert (again.status_code, again.json()["data"]["state"]) == (200, "draining")
    assert (await client.post(f"{path}/heartbeat", json={"draining": False})).json()["data"][
        "state"
    ] == "online"
    world.wall += 10_000
    service = (await client.get(PATH)).json()["data"]
    assert [one["state"] for one in service["instances"]] == ["offline"]
    assert (await client.post(f"{path}/heartbeat")).status_code == 200
    assert (await client.delete(path)).json()["data"] == {"instanceId": "i:1"}
    for gone in (await client.delete(path), await client.post(f"{path}/heartbeat", json={})):
        assert (gone.status_code, pointers(gone)) == (404, [("/instanceId", "absent")])


async def test_instances_at_one_address_are_warned_of(world: World, client: httpx.AsyncClient) -> None:
    """As processes that one server starts on one port: a call reaches either of them (SPEC section 13)."""
    said = {"address": "http://10.0.0.7:81"}
    assert (await client.put(f"{PATH}/instances/a", json=said)).json()["warnings"] == []
    for _ in range(2):
        (warning,) = (await client.put(f"{PATH}/instances/b", json=said)).json()["warnings"]
        assert (warning["pointer"], warning["code"]) == ("/address", "address_shared")
        assert "'a'" in warning["message"]
    for path, body in (("b", {"address": "http://10.0.0.7:82"}), ("c", {}), ("d", {})):
        assert (await client.put(f"{PATH}/instances/{path}", json=body)).json()["warnings"] == []
    world.wall += 10_000
    assert (await client.put(f"{PATH}/instances/e", json=said)).json()["warnings"] == []


async def refuse_private(address: str, vouched: bool) -> None:
    """Raises RefusedTarget for a private address that nobody vouches for."""
    if "10.0.0.7" in address and not vouched:
        raise RefusedTarget("10.0.0.7 is private.")


async def test_no_role_vouches_for_a_private_address() -> None:
    """The key of the service does, and that of the settings (SPEC section 9); what these registered stays."""
    clock = ManualClock(wall=START)
    ring = KeyRing(table=MemoryKeys(), clock=clock)
    world = World(admin_key="k" * 20, key_ring=ring, clock=clock, admit=refuse_private)
    start, keys = {"Authorization": "Bearer " + "k" * 20}, {}
    async with world.client() as client:
        for name, wanted in (("editor", {}), ("chief", {}), ("billing", {"service": "billing"})):
            role = "admin" if name == "chief" else "editor"
            made = await client.post("/keys", json={"name": name, "role": role, **wanted}, headers=start)
            keys[name] = {"Authorization": f"Bearer {made.json()['data']['key']}"}
        private, again = {"address": "http://10.0.0.7/"}, {"address": "http://10.0.0.7/", "tags": ["x"]}
        for name in ("editor", "chief"):
            answer = await client.put(PATH, json=private, headers=keys[name])
            assert (answer.status_code, pointers(answer)) == (422, [("/address", "invalid")])
            assert "10.0.0.7 is private. Or register it with a key of the service 'billing'." in answer.text
            answer = await client.put(f"{PATH}/instances/a", json=private, headers=keys[name])
            assert (answer.status_code, pointers(answer)) == (403, [("/Authorization", "scope")])
            assert "--role editor --service SERVICE" in answer.text
        for path in (PATH, f"{PATH}/instances/a"):
            for own in (keys["billing"], start):
                assert (await client.put(path, json=private, headers=own)).status_code < 300
        assert (await client.put(PATH, json=again, headers=keys["editor"])).status_code == 200
        service = world.registry.find("default", "billing")
        instance = world.registry.instances.get("default", "billing", "a")
        assert service is not None
        assert instance is not None
        assert (service.vouched, service.tags, instance.vouched) == (True, ("x",), True)
        for given, status in (({"address": "http://x.test"}, 200), (private, 422)):
            assert (await client.put(PATH, json=given, headers=keys["editor"])).status_code == status
        assert world.registry.find("default", "billing") == msgspec.structs.replace(
            service, address="http://x.test", tags=(), vouched=False, updated_at=world.wall
        )


async def test_without_a_key_an_address_is_checked() -> None:
    """As a job's own target is (SPEC section 9); nothing is kept of what is refused."""

    world = World(admit=refuse_private)
    async with world.client() as client:
        for path in (PATH, f"{PATH}/instances/a"):
            response = await client.put(path, json={"address": "http://10.0.0.7"})
            assert (response.status_code, pointers(response)) == (422, [("/address", "invalid")])
            assert response.json()["detail"] == "10.0.0.7 is private."
            assert (await client.get(PATH)).status_code == 404
        assert (await client.put(f"{PATH}/instances/a", json={"address": "http://x.test"})).status_code == 201


HOURLY = {"dueTime": "1h", "period": "1h"}
OWNED = {"X-Service": "billing"}


async def options(client: httpx.AsyncClient, job_id: str) -> Any:
    """Value and source of each option of a job."""
    shown = (await client.get(f"/jobs/{job_id}")).json()["data"]["options"]
    return {name: (one["value"], one["source"]) for name, one in shown.items()}


async def test_declared_jobs_have_the_options_of_their_service(client: httpx.AsyncClient) -> None:
    """What a job says itself wins; what nobody says is the product's."""
    given = {"maxRetries": 3, "overlapPolicy": "queue"}
    shown = await put(client, declared("a"), declared("b", maxRetries=1), status=201, options=given)
    assert shown["options"] == given
    first, second = await options(client, "a"), await options(client, "b")
    assert (first["maxRetries"], second["maxRetries"]) == ((3, "service"), (1, "job"))
    assert (first["overlapPolicy"], first["qos"]) == (("queue", "service"), (0, "product"))


async def test_a_change_counts_for_later_executions(client: httpx.AsyncClient, world: World) -> None:
    """The schedule stays as it is, there is no drift, and the next scan finds nothing to do."""
    await put(client, declared("a", timer=HOURLY), status=201, options={"maxRetries": 3})
    before = (await client.get("/jobs/a")).json()["data"]
    world.wall += 60_000
    await put(client, declared("a", timer=HOURLY), options={"maxRetries": 4})
    after = (await client.get("/jobs/a")).json()["data"]
    assert (await options(client, "a"))["maxRetries"] == (4, "service")
    assert (after["nextFireTime"], after["revision"]) == (before["nextFireTime"], before["revision"] + 1)
    assert not {name for name, count in (await world.scan()).items() if count and name != "services"}
    assert not (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    await put(client, declared("a", timer=HOURLY), options={"maxRetries": 4})
    assert (await client.get("/jobs/a")).json()["data"]["revision"] == after["revision"]
    await put(client, declared("a", timer=HOURLY))
    assert (await options(client, "a"))["maxRetries"] == (5, "product")


async def test_each_tenant_has_the_options_of_its_own_service() -> None:
    """The same service and the same job in two tenants: a change reaches one of them, and its jobs alone."""
    clock = ManualClock(wall=START)
    world = World(admin_key="k" * 20, key_ring=KeyRing(table=MemoryKeys(), clock=clock), clock=clock)
    async with world.client(headers={"Authorization": "Bearer " + "k" * 20}) as own:
        wanted = {"name": "a", "role": "admin", "tenant": "zed"}
        key = (await own.post("/keys", json=wanted)).json()["data"]["key"]
        async with world.client(headers={"Authorization": f"Bearer {key}"}) as other:
            for client in (own, other):
                await put(client, declared("a"), declared("b"), status=201, options={"maxRetries": 1})
            for count, (client, beside) in enumerate(((other, own), (own, other)), 2):
                await put(client, declared("a"), declared("b"), options={"maxRetries": count})
                for job_id in ("a", "b"):
                    assert (await options(client, job_id))["maxRetries"] == (count, "service")
                    assert (await client.get(f"/jobs/{job_id}")).json()["data"]["revision"] == 2
                    assert (await options(beside, job_id))["maxRetries"] != (count, "service")
                assert not (await client.get(f"{PATH}/drift")).json()["data"]["items"]
            assert not {name for name, count in (await world.scan()).items() if count and name != "services"}
            await put(other)
            states = [(await client.get("/jobs/a")).json()["data"]["state"] for client in (own, other)]
            assert states == ["active", "paused"]


async def test_options_that_could_not_be_given_are_given_when_it_is_repeated(
    client: httpx.AsyncClient, world: World
) -> None:
    """By the caller, or the next scan; also where the registration names none any more."""
    await put(client, declared("a"), status=201, options={"maxRetries": 3})
    for again in (lambda: put(client, declared("a")), world.scan):
        world.faults = [StoreUnavailable("the disk is full")]
        assert (await client.put(PATH, json={"timers": [declared("a")]})).status_code == 503
        assert (await options(client, "a"))["maxRetries"] == (3, "service")
        await again()
        assert (await options(client, "a"))["maxRetries"] == (5, "product")
        await put(client, declared("a"), options={"maxRetries": 3})


async def test_a_job_that_has_run_is_not_run_again(client: httpx.AsyncClient, world: World) -> None:
    """A changed declaration would run a `one_time` job at once; changed options do not."""
    await put(client, declared("once", timer={"dueTime": "0s"}), status=201)
    await world.answer_calls()
    before = (await client.get("/jobs/once")).json()["data"]["executeNumber"]
    await put(client, declared("once", timer={"dueTime": "0s"}), options={"maxRetries": 4})
    assert (await client.get("/jobs/once")).json()["data"]["executeNumber"] == before == 1


async def test_what_a_person_edited_stays_and_has_the_options(client: httpx.AsyncClient) -> None:
    """It is drift as before; the update of a person need not name the service."""
    await put(client, declared("a"), status=201, options={"maxRetries": 3})
    await client.post("/jobs/a/update", json=definition(jobName="edited"))
    assert (await options(client, "a"))["maxRetries"] == (3, "service")
    await put(client, declared("a"), options={"maxRetries": 4})
    shown = (await client.get("/jobs/a")).json()["data"]
    assert (shown["definition"]["jobName"], shown["options"]["maxRetries"]["value"]) == ("edited", 4)
    drift = (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    assert [one["kind"] for one in drift] == ["overridden"]


async def test_posted_jobs_of_a_service_have_them_too(client: httpx.AsyncClient) -> None:
    """By the key or header that names it; the same definition is the same job."""
    await put(client, status=201, options={"maxRetries": 3})
    assert (await client.post("/jobs/own", json=definition(), headers=OWNED)).status_code == 201
    assert (await client.post("/jobs/own", json=definition(), headers=OWNED)).status_code == 200
    assert (await options(client, "own"))["maxRetries"] == (3, "service")
    array = [{"jobId": "many", **definition()}]
    assert (await client.post("/jobs", json=array, headers=OWNED)).json()["data"]["items"][0][
        "status"
    ] == "created"
    assert (await options(client, "many"))["maxRetries"] == (3, "service")
    await client.post("/jobs/free", json=definition())
    assert (await options(client, "free"))["maxRetries"] == (5, "product")


async def test_nobody_posts_the_options_of_a_service(client: httpx.AsyncClient) -> None:
    """What a definition has of them when it was read is left out; an escaped name is refused."""
    await put(client, status=201, options={"maxRetries": 3})
    false = {"serviceOptions": {"service": "billing", "maxRetries": 9}}
    await client.post("/jobs/free", json=definition(**false))
    assert (await options(client, "free"))["maxRetries"] == (5, "product")
    await client.post("/jobs/own", json=definition(**false), headers=OWNED)
    assert (await options(client, "own"))["maxRetries"] == (3, "service")
    escaped = httpx.Response(200, json=definition(**false)).text.replace(
        "serviceOptions", "\\u0073erviceOptions"
    )
    headers = {"content-type": "application/json"}
    answer = await client.post("/jobs/sly", content=escaped, headers=headers)
    assert pointers(answer) == [("/serviceOptions", "reserved")]


async def test_wrong_options_are_refused(client: httpx.AsyncClient) -> None:
    """By their place; `startPolicy` is said by each declared job."""
    for wrong in ({"maxRetries": -1}, {"startPolicy": "manual"}, {"jobName": "x"}):
        answer = await client.put(PATH, json={"options": wrong})
        (name,) = wrong
        assert [pointer for pointer, _ in pointers(answer)] == [f"/options/{name}"]


async def test_the_audit_has_the_change_and_what_followed(client: httpx.AsyncClient) -> None:
    """The person who registered it, and the system for each of its jobs."""
    await put(client, declared("a"), status=201, options={"maxRetries": 3})
    await put(client, declared("a"), options={"maxRetries": 4})
    lines = (await client.get("/audit?service=billing&limit=2")).json()["data"]["items"]
    (given,) = (line for line in lines if line["operation"] == "check-timers")
    (asked,) = (line for line in lines if line["operation"] == "putService")
    assert (given["jobId"], given["given"]) == ("a", {"action": "options"})
    assert asked["difference"] == [{"pointer": "/options/maxRetries", "before": 3, "after": 4}]


LIMIT = 40_000


async def read(body: bytes) -> PostedRegistration:
    """`read_registration` with 40,000 bytes for an object, four times that for an array."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    deps = World(body_bytes=LIMIT, array_bytes=4 * LIMIT).deps
    scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
    caller = Caller("default", Role.EDITOR)
    return await read_registration(
        ApiRequest(caller=caller, deps=deps, scope=scope, receive=receive, path={}, query={})
    )


@each_row("lengths", [[1], [35_000], [20_000, 20_000, 20_000]])
async def test_timers_are_texts_with_the_digest_of_the_whole(lengths: list[int]) -> None:
    """Whichever way a body of this size is read."""
    timers = [json.dumps({"jobName": "x" * length}) for length in lengths]
    text = f"[{', '.join(timers)}]"
    found = await read(f'{{"tags": ["t"], "timers": {text}}}'.encode())
    assert found.value["tags"] == ["t"]
    assert found.timers is not None
    assert [bytes(item) for item in found.timers.items] == [one.encode() for one in timers]
    assert found.timers.digest == digest_of(text.encode())


@each_row("body", [b"", b"{}", b'{"timers": null}', b'{"timers": {}}'])
async def test_one_without_an_array_has_no_timers(body: bytes) -> None:
    """No body is an empty object; the form of `timers` is checked later."""
    assert (await read(body)).timers is None


@each_row(
    ("body", "status", "pointer"),
    [
        (b"[]", 422, ""),
        (b'{"timers": [', 400, ""),
        (b'{"tags": "' + b"x" * LIMIT + b'"}', 413, ""),
        (b'{"timers": [{}, {"a": "' + b"x" * LIMIT + b'"}]}', 413, "/timers/1"),
        (b'{"timers": [' + b"{}," * (20 * MAX_TIMERS) + b"{}]}", 422, "/timers"),
        (b'{"timers": [' + b'"' + b"x" * (4 * LIMIT) + b'"]}', 413, ""),
    ],
)
async def test_what_is_refused_names_its_place(body: bytes, status: int, pointer: str) -> None:
    """Before any timer is decoded."""
    with pytest.raises(ApiProblem) as caught:
        await read(body)
    assert caught.value.status == HTTPStatus(status)
    assert [one["pointer"] for one in caught.value.errors] == [pointer]


async def test_what_is_no_definition_is_named_as_it_was_posted() -> None:
    """Where it is short: the rest of the registration is checked with it, and says what is wrong."""
    found = await read(b'{"timers": [{"jobId": "a"}, 5, null, [1], "' + b"x" * 300 + b'"]}')
    assert found.value["timers"] == [{}, 5, None, [1], []]
