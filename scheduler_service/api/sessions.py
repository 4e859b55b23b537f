"""Signing in and out in a browser: a key is exchanged for a session (SPEC section 14)."""

from http import HTTPStatus

from starlette.responses import Response

from client_sdk.models.requests import SignIn
from scheduler_service.api.authentication import Identity
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.cookies import check_console, check_origin, write_cookie
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, refuse, succeed
from scheduler_service.domain.moments import SECOND, rfc3339

LONGEST_BODY = 4_096
UNKEPT = {"cache-control": "no-store"}


async def show_session(request: ApiRequest) -> Response:
    """`GET /session`: who the caller is; 200 with `role` null for who has to sign in."""
    deps = request.deps
    return succeed(_wire(deps.authentication.identify(request.scope), request), UNKEPT)


async def sign_in(request: ApiRequest) -> Response:
    """`POST /session`: exchanges a key for a cookie; where none is needed it says who the caller is."""
    check_origin(request.scope, request.deps.authentication.own_url)
    posted = read_model(SignIn, read_json(await request.body(LONGEST_BODY)))
    authentication, limit = request.deps.authentication, request.deps.sign_in_limit
    # A right key always gets in: behind a proxy all callers may have one address, and wrong keys of one of
    # them would keep out all. From here on nothing is awaited, so that many at once are counted.
    address, now = _address(request), request.deps.clock.now()
    if not authentication.needs_key:
        return succeed(_wire(authentication.identify(request.scope), request), UNKEPT)
    session = authentication.open_session(posted.key)
    if session is None:
        if wait := limit.wait(address, now.steady):
            raise _too_many(wait)
        limit.fail(address, now.steady)
        message = "this key is not known; take the one of server.key"
        raise refuse(HTTPStatus.UNAUTHORIZED, "/key", "unauthorized", message)
    limit.succeed(address)
    identity, text = session
    cookie = write_cookie(request.scope, text, authentication.own_url)
    return succeed(_wire(identity, request), {**UNKEPT, "set-cookie": cookie})


async def sign_out(request: ApiRequest) -> Response:
    """`DELETE /session`: the browser forgets the session; 200 also where there was none."""
    authentication = request.deps.authentication
    check_console(request.scope, authentication.own_url)
    gone = None if authentication.needs_key else authentication.identify(request.scope)
    cookie = write_cookie(request.scope, "", authentication.own_url)
    return succeed(_wire(gone, request), {**UNKEPT, "set-cookie": cookie})


def _wire(identity: Identity | None, request: ApiRequest) -> dict[str, object]:
    needs_key = request.deps.authentication.needs_key
    if identity is None:
        return {"name": None, "tenant": None, "role": None, "expiresAt": None, "needsKey": needs_key}
    caller, expires = identity.caller, identity.expires
    return {
        "name": caller.name,
        "tenant": caller.tenant,
        "role": caller.role.value,
        "expiresAt": None if expires is None else rfc3339(expires),
        "needsKey": needs_key,
    }


def _address(request: ApiRequest) -> str:
    client = request.scope.get("client")
    return "" if client is None else str(client[0])


def _too_many(wait: int) -> ApiProblem:
    seconds = -(-wait // SECOND)
    message = f"too many wrong keys were tried; try again in {seconds} s"
    problem = refuse(HTTPStatus.TOO_MANY_REQUESTS, "", "limit", message)
    problem.headers = (("retry-after", str(seconds)),)
    return problem
