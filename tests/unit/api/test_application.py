"""Other applications beside the API, below a path prefix."""

import gc
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.routing import Match

from scheduler_service.api.application import OPERATIONS, ApiApplication, Endpoint, create_api
from scheduler_service.api.request import OF_SERVICES, ApiOperation, ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.security.callers import Caller, Role
from tests.rows import each_row
from tests.unit.api.world import World, pointers


async def static(scope: Any, receive: Any, send: Any) -> None:
    """A tiny application: answers every path with its name."""
    body = f"page {scope['path'].removeprefix(scope['root_path'])}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of a service that has one."""
    api = create_api(World(admin_key="secret").deps, mounts={"/console": static})
    transport = httpx.ASGITransport(api, client=("192.0.2.1", 1234))
    async with httpx.AsyncClient(transport=transport, base_url="https://jobs.example") as client:
        yield client


async def test_a_mount_is_served_without_a_key(browser: httpx.AsyncClient) -> None:
    """The API's authentication is not applied to it."""
    for path in ("/console/", "/console/app.js", "/console/jobs/j1"):
        answer = await browser.get(path)
        assert (answer.status_code, answer.text) == (200, f"page {path.removeprefix('/console')}")
    # A mount s prefix redirects to its first page
    answer = await browser.get("/console")
    assert (answer.status_code, answer.headers["location"]) == (307, "console/")
    # Routes of the API, and unknown paths outside the mount
    for path in ("/jobs", "/settings", "/consoles", "/nothing"):
        assert (await browser.get(path)).status_code == 401


BUSY = [operation.path for operation in OPERATIONS if operation.is_busy]


@pytest.fixture
def api(world: World) -> ApiApplication:
    """The application over a world."""
    assert isinstance(world.api, ApiApplication)
    return world.api


def scope_of(path: str, **more: Any) -> dict[str, Any]:
    """The scope of a request for `path`."""
    return {"type": "http", "method": "POST", "path": path, "headers": [], **more}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_it_leads_where_the_router_leads(api: ApiApplication, operation: ApiOperation) -> None:
    """With the same parameters; a path that is not busy goes the long way."""
    path = re.sub(r"\{(\w+)\}", r"a-\1", operation.path)
    short, long = scope_of(path), scope_of(path)
    endpoint = api.busy.find(short)
    routes = (route.matches(long) for route in api.router.routes)
    found = next(child for match, child in routes if match is Match.FULL)
    assert (endpoint is not None) == (found["endpoint"].path in BUSY)
    if endpoint is not None:
        assert short["endpoint"] is endpoint is found["endpoint"]
        assert short["path_params"] == found["path_params"]


@pytest.mark.parametrize(
    "scope",
    [
        scope_of("/services/a/instances/b/heartbeat", root_path="/tools"),
        scope_of("/services/a/instances/b/heartbeat/"),
        scope_of("/services/a/instances//heartbeat"),
        {"type": "lifespan"},
    ],
    ids=["below a root path", "a slash too many", "an empty part", "no request"],
)
def test_what_is_not_plain_goes_the_long_way(api: ApiApplication, scope: dict[str, Any]) -> None:
    """The router reads it."""
    assert BUSY
    assert api.busy.find(scope) is None


@pytest.mark.parametrize("path", ["/services/a/instances/b/heartbeat", "/services"])
async def test_a_fault_is_answered_on_both_ways(world: World, path: str) -> None:
    """500 without a word of what went wrong; the server sees the error, for its log."""
    world.deps.services.registry.instances.renew = broken  # type: ignore[method-assign]
    world.deps.services.registry.services = broken  # type: ignore[method-assign]
    method = "GET" if path == "/services" else "POST"
    api = create_api(world.deps)
    for raises in (False, True):
        transport = httpx.ASGITransport(api, raise_app_exceptions=raises, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            if raises:
                with pytest.raises(ZeroDivisionError):
                    await client.request(method, path)
                continue
            answer = await client.request(method, path)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (500, "internal")
        assert "zero" not in answer.text


def broken(*given: Any, **named: Any) -> Any:
    """A defect."""
    raise ZeroDivisionError(given)


async def test_a_refused_request_is_freed_at_once(world: World, client: httpx.AsyncClient) -> None:
    """Without the collector: 60 refused bodies of a MiB took 320 MiB until its turn came."""
    gc.collect()
    gc.disable()
    try:
        refused = set()
        for operation in OPERATIONS:
            path = re.sub(r"\{\w+\}", "none", operation.path)
            if operation.method != "GET":
                answer = await client.request(operation.method, path, json={"wrong": 1})
                refused |= {operation.name} if answer.is_error else set()
        requests = (one for one in gc.get_objects() if type(one) is ApiRequest)
        kept = [request.operation for request in requests if request.deps is world.deps]
    finally:
        gc.enable()
    assert {"createJob", "putService", "changeManyJobs", "claimWork"} <= refused
    assert kept == []


TRIES = ("/preview", "/check", "/outlook", "/compare", "/dates/read")
"""How the paths end that try something without creating it."""
NEEDS_A_KEY = [operation for operation in OPERATIONS if operation.role is not Role.VIEWER]


async def ask(world: World, operation: ApiOperation, caller: Caller) -> httpx.Response:
    """The answer of the operation's endpoint to this caller."""

    async def serve(scope: dict[str, object], receive: object, send: object) -> None:
        scope["path_params"] = {}
        await endpoint(scope, receive, send)

    endpoint = Endpoint(deps=world.deps, authenticate=lambda scope, is_open: caller, operations=[operation])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(serve), base_url="http://localhost") as client:
        return await client.request(operation.method, "/")


@each_row("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_names_a_role(operation: ApiOperation) -> None:
    """What only reads or tries needs a viewer; what changes something needs more, feedback a token alone."""
    assert isinstance(operation.role, Role)
    reads = operation.method == "GET" or operation.path.endswith(TRIES)
    open_to_viewers = reads and not operation.path.startswith(("/settings", "/keys", "/audit", "/secrets"))
    assert (operation.role is Role.VIEWER) == (open_to_viewers or operation.is_open)


@pytest.mark.parametrize("operation", NEEDS_A_KEY, ids=lambda operation: operation.name)
async def test_a_lesser_role_is_refused(world: World, operation: ApiOperation) -> None:
    """403 as a problem, and nothing is done."""
    lesser = [role for role in Role if not role.includes(operation.role)]
    assert lesser
    for role in lesser:
        answer = await ask(world, operation, Caller("default", role))
        assert (answer.status_code, pointers(answer)) == (403, [("/Authorization", "role")])
        assert f"needs the role {operation.role}" in answer.json()["detail"]
    assert world.turns == 0


async def test_the_handler_gets_the_caller(world: World) -> None:
    """With tenant, role and service, as the authentication found them."""
    seen: list[Caller] = []

    async def handler(request: ApiRequest) -> object:
        seen.append(request.caller)
        return succeed(None)

    operation = ApiOperation(route="GET /", handler=handler, role=Role.VIEWER, name="x", scopes=OF_SERVICES)
    caller = Caller("other", Role.OPERATOR, "billing")
    assert (await ask(world, operation, caller)).status_code == 200
    assert seen == [caller]


async def test_lists_are_of_the_caller_s_tenant(world: World, client: httpx.AsyncClient) -> None:
    """Another tenant's caller finds no job of this one (SPEC section 1)."""
    assert (await client.put("/services/billing", json={})).status_code == 201
    services = next(operation for operation in OPERATIONS if operation.name == "listServices")
    for tenant, names in (("default", ["billing"]), ("other", [])):
        answer = await ask(world, services, Caller(tenant, Role.VIEWER))
        assert [one["name"] for one in answer.json()["data"]["items"]] == names
