"""Signing in and out in a browser: a key is exchanged for a session (SPEC section 14)."""

from http import HTTPStatus

from starlette.responses import Response

from client_sdk.models import answers
from client_sdk.models.request_bodies import SignIn
from scheduler_service.api import openapi_examples
from scheduler_service.api.audit_writing import Way, note_sign_in
from scheduler_service.api.authentication import KnownCaller
from scheduler_service.api.bodies import header, read_json, read_model
from scheduler_service.api.request import ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import refuse, succeed
from scheduler_service.api.session_cookies import check_console, check_origin, write_cookie
from scheduler_service.domain.audit_acts import ActKind
from scheduler_service.domain.moments import rfc3339
from scheduler_service.security.callers import Role

ROUTES = Routes("operation")

LONGEST_BODY = 4_096


@ROUTES.add("GET /session", Role.VIEWER, data=answers.Session, statuses=(429,), is_open=True)
async def show_session(request: ApiRequest) -> Response:
    """Show who the caller is; `role` is null for who has to sign in."""
    authentication = request.deps.security.authentication
    identity = authentication.identify(request.scope)
    if identity is None and header(request.scope, b"authorization") is not None:
        authentication.count_wrong_key(request.scope)
    return succeed(_wire(identity, request))


@ROUTES.add(
    "POST /session",
    Role.VIEWER,
    body=PostedBody(SignIn, openapi_examples.SIGN_IN, required=True),
    data=answers.Session,
    statuses=(401, 429),
    is_open=True,
    audit=Way.HANDLER,
    kind=ActKind.SESSION,
)
async def sign_in(request: ApiRequest) -> Response:
    """Sign in with a key, in a browser: it gets a cookie; where no key is needed, show who the caller is."""
    check_origin(request.scope, request.deps.security.authentication.own_url)
    posted = read_model(SignIn, read_json(await request.body(LONGEST_BODY)))
    authentication = request.deps.security.authentication
    if not authentication.needs_key:
        return succeed(_wire(authentication.identify(request.scope), request))
    session = authentication.open_session(posted.key, request.scope)
    if session is None:
        authentication.count_wrong_key(request.scope)
        await note_sign_in(request, None)
        message = "this key is not known; take the one of server.key, or one that was made"
        raise refuse(HTTPStatus.UNAUTHORIZED, "/key", "unauthorized", message)
    identity, text = session
    await note_sign_in(request, identity.caller)
    cookie = write_cookie(request.scope, text, authentication.own_url)
    return succeed(_wire(identity, request), {"set-cookie": cookie})


@ROUTES.add("DELETE /session", Role.VIEWER, data=answers.Session, is_open=True, audit=Way.NONE)
async def sign_out(request: ApiRequest) -> Response:
    """Sign out, in a browser: its session ends, also for others who have the cookie; 200 without one."""
    authentication = request.deps.security.authentication
    if header(request.scope, b"authorization") is None:  # which no page sends unasked
        check_console(request.scope, authentication.own_url)
    await authentication.close_sessions(request.scope)
    gone = None if authentication.needs_key else authentication.identify(request.scope)
    cookie = write_cookie(request.scope, "", authentication.own_url)
    return succeed(_wire(gone, request), {"set-cookie": cookie})


def _wire(identity: KnownCaller | None, request: ApiRequest) -> dict[str, object]:
    needs_key = request.deps.security.authentication.needs_key
    if identity is None:
        members = dict.fromkeys(("name", "tenant", "role", "service", "keyId", "expiresAt"))
        return {**members, "labels": [], "isOfProxy": False, "needsKey": needs_key}
    caller, expires = identity.caller, identity.expires
    return {
        "name": caller.name,
        "tenant": caller.tenant,
        "role": caller.role.value,
        "service": caller.service,
        "labels": list(caller.labels),
        "keyId": caller.key_id or None,
        "expiresAt": None if expires is None else rfc3339(expires),
        "isOfProxy": identity.is_of_proxy,
        "needsKey": needs_key,
    }
