"""The short way of busy operations leads where the router leads; a fault is answered there, too."""

import re
from typing import Any

import httpx
import pytest
from starlette.routing import Match

from scheduler_service.api.application import Api, create_api
from scheduler_service.api.request import Operation
from scheduler_service.api.routes import OPERATIONS
from tests.unit.api.world import World

BUSY = [operation.path for operation in OPERATIONS if operation.is_busy]


@pytest.fixture
def api(world: World) -> Api:
    """The application over a world."""
    assert isinstance(world.api, Api)
    return world.api


def scope_of(path: str, **more: Any) -> dict[str, Any]:
    """The scope of a request for `path`."""
    return {"type": "http", "method": "POST", "path": path, "headers": [], **more}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_it_leads_where_the_router_leads(api: Api, operation: Operation) -> None:
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
def test_what_is_not_plain_goes_the_long_way(api: Api, scope: dict[str, Any]) -> None:
    """The router reads it."""
    assert BUSY
    assert api.busy.find(scope) is None


@pytest.mark.parametrize("path", ["/services/a/instances/b/heartbeat", "/services"])
async def test_a_fault_is_answered_on_both_ways(world: World, path: str) -> None:
    """500 without a word of what went wrong; the server sees the error, for its log."""
    world.deps.registry.instances.renew = broken  # type: ignore[method-assign]
    world.deps.registry.services = broken  # type: ignore[method-assign]
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
