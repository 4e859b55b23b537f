"""Every operation names its role, and a caller of a lesser role is refused (SPEC section 14)."""

import httpx
import pytest

from scheduler_service.api.application import Endpoint
from scheduler_service.api.request import ApiRequest, Operation
from scheduler_service.api.responses import succeed
from scheduler_service.api.routes import OPERATIONS
from scheduler_service.security.callers import Caller, Role
from tests.rows import each_row
from tests.unit.api.world import World, pointers

TRIES = ("/preview", "/check", "/outlook")
"""How the paths end that try something without creating it."""
NEEDS_A_KEY = [operation for operation in OPERATIONS if operation.role is not Role.VIEWER]


async def ask(world: World, operation: Operation, caller: Caller) -> httpx.Response:
    """The answer of the operation's endpoint to this caller."""

    async def serve(scope: dict[str, object], receive: object, send: object) -> None:
        scope["path_params"] = {}
        await endpoint(scope, receive, send)

    endpoint = Endpoint(deps=world.deps, authenticate=lambda scope, is_open: caller, operations=[operation])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(serve), base_url="http://localhost") as client:
        return await client.request(operation.method, "/")


@each_row("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_names_a_role(operation: Operation) -> None:
    """What only reads or tries needs a viewer; what changes something needs more, feedback a token alone."""
    assert isinstance(operation.role, Role)
    reads = operation.method == "GET" or operation.path.endswith(TRIES)
    open_to_viewers = reads and operation.path != "/settings"
    assert (operation.role is Role.VIEWER) == (open_to_viewers or operation.is_open)


@pytest.mark.parametrize("operation", NEEDS_A_KEY, ids=lambda operation: operation.name)
async def test_a_lesser_role_is_refused(world: World, operation: Operation) -> None:
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

    operation = Operation(route="GET /", handler=handler, role=Role.VIEWER, name="x")
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
