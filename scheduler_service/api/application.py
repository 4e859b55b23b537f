"""The REST API as an ASGI application: every operation, with one endpoint per path (SPEC section 10)."""

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from itertools import chain
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scheduler_service.api import (
    audit,
    bulk_operations,
    calendars,
    deliveries,
    events,
    executions,
    firings,
    health,
    job_arrays,
    jobs,
    keys,
    legacy_main,
    previews,
    queues,
    results,
    services,
    sessions,
    statistics,
    stored_secrets,
    trials,
)
from scheduler_service.api.audit_writing import AuditNote, Way, audited
from scheduler_service.api.authentication import Authenticate, check_role, check_tenant
from scheduler_service.api.bodies import ClientGone
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.key_scopes import check_scope, check_service, check_sight
from scheduler_service.api.openapi import describe
from scheduler_service.api.pages import FrontPage, Reference
from scheduler_service.api.parameters import check_length, read_query
from scheduler_service.api.request import LONGEST_IN_PATH, ApiOperation, ApiRequest
from scheduler_service.api.request_room import AnswerPlace
from scheduler_service.api.responses import (
    ENCODER,
    PROTECTING,
    ApiProblem,
    count_fault,
    fail,
    refusal_of,
    refuse,
    store_problem,
)
from scheduler_service.domain.token_masks import mask_tokens
from scheduler_service.hosts.work_thread import work_apart
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.security.callers import Role

ROLE = "punctual.role"
"""Where the scope of a request has the role of its caller, once the caller is known."""

LONGEST_METHOD = 20
MILLISECONDS = 1_000
NO_ROUTE = "none"
"""The template of a path that has no route."""
OTHER_METHOD = "other"
_MODULES = (
    jobs,
    job_arrays,
    queues,
    services,
    firings,
    previews,
    trials,
    executions,
    results,
    statistics,
    bulk_operations,
    deliveries,
    health,
    legacy_main,
    sessions,
    keys,
    stored_secrets,
    calendars,
    events,
    audit,
)
# Paths are matched in this order, those of busy operations first.
OPERATIONS = tuple(
    sorted(
        chain.from_iterable(module.ROUTES.operations for module in _MODULES),
        key=lambda operation: not operation.is_busy,
    )
)


class BusyPaths:
    """The routes of busy operations, in their order; all their parameters are one part of a path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple((route.path_regex.match, route.endpoint) for route in routes)

    def find(self, scope: Scope) -> ASGIApp | None:
        """The endpoint of the path, which is then told its parameters as a router does; None: another path.

        Below the `root_path` of a server none is found: there the router reads the path.
        """
        if scope["type"] != "http" or scope.get("root_path"):
            return None
        path = scope["path"]
        for match, endpoint in self._routes:
            if (found := match(path)) is not None:
                scope["path_params"] = found.groupdict()
                scope["endpoint"] = endpoint
                return endpoint
        return None


def create_api(
    deps: ApiDependencies,
    *,
    mounts: Mapping[str, ASGIApp] | None = None,
) -> FastAPI:
    """The API over `deps`, with other applications under `mounts`.

    FastAPI's own validation is not used: bodies are checked once, by the wire models, and answers are
    encoded once (decision 21); `/openapi.json` describes the same declarations. `mounts` maps a path prefix
    (`/console`) to an ASGI application; the API neither authenticates nor describes what is below it.
    """
    document = cache(lambda: describe(OPERATIONS, version=deps.shown.version))
    authenticate = deps.security.authentication
    api = ApiApplication(
        title="Punctual",
        version=deps.shown.version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _answer_unknown(deps, authenticate), Exception: _answer_fault},
    )
    api.state.audited = frozenset(operation.name for operation in OPERATIONS if operation.is_audited)
    listed = (*(operation.path for operation in OPERATIONS), "/docs", "/openapi.json", *(mounts or {}))
    pages = (_description(document), *_pages(document, listed))
    routes = tuple(_routes(deps, authenticate, (*OPERATIONS, *pages)))
    api.router.routes.extend(routes)
    busy = {operation.path for operation in OPERATIONS if operation.is_busy}
    api.busy = BusyPaths([route for route in routes if route.path in busy])
    for prefix, app in (mounts or {}).items():
        api.router.routes.extend(_mount(prefix, app))
    api.openapi = document  # type: ignore[method-assign]
    return api


class ApiApplication(FastAPI):
    """FastAPI's application, of which the paths of busy operations pass no layer.

    Those layers answer what no endpoint does, and cost a heartbeat a third of its time.
    """

    busy: BusyPaths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request (ASGI)."""
        endpoint = self.busy.find(scope)
        await (super().__call__ if endpoint is None else endpoint)(scope, receive, send)


class Endpoint:
    """An ASGI endpoint for all operations of one path."""

    def __init__(
        self, *, deps: ApiDependencies, authenticate: Authenticate, operations: Iterable[ApiOperation]
    ) -> None:
        self._deps = deps
        self._authenticate = authenticate
        self._operations = {operation.method: operation for operation in operations}
        self._allow = ", ".join(sorted(self._operations))
        self.path = next(iter(self._operations.values())).path
        """As the description of the API has it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. Raises only what is a fault of this service, after its answer."""
        began = time.perf_counter()
        place: AnswerPlace | None = None
        try:
            try:
                operation, request = self._read(scope, receive)
                if operation.waits is not None:
                    await operation.waits(request)
                if operation.answer_line is not None:
                    place = await self._deps.limits.large_answers[operation.answer_line].take(send)
                    send = place.send
                response = await self._handle(operation, request)
            except ClientGone:
                return
            except Exception as error:
                explained = self._explain(error, scope)
                if explained is None:
                    self._count(scope, HTTPStatus.INTERNAL_SERVER_ERROR, began)
                    await _refusal(_fault())(scope, receive, send)
                    raise
                # A frame that keeps its error would stay, with the body, until the collector comes: seldom.
                error.__traceback__ = None
                response = explained
            self._count(scope, response.status_code, began)
            response.raw_headers += PROTECTING
            await response(scope, receive, send)
        finally:
            if place is not None:
                place.give_back()

    async def _handle(self, operation: ApiOperation, request: ApiRequest) -> Response:
        try:
            if not operation.is_open:
                if request.caller.is_narrow:
                    await check_sight(request)
                request.when_read = _check_rights
            if operation.audit_way is not Way.REQUEST or request.note is None:
                return await operation.handler(request)
            return await audited(request, request.note, lambda: operation.handler(request))
        finally:
            if request.memory is not None:
                request.memory.leave()

    def _explain(self, error: Exception, scope: Scope) -> Response | None:
        """What the caller is told of a refusal, or of a store that does not answer; None: it is a fault."""
        if isinstance(error, StoreError):
            count_fault(self._deps.shown.store_faults, error)
            return fail(store_problem(error, is_read=scope["method"] in ("GET", "HEAD")))
        problem = refusal_of(error)
        return None if problem is None else fail(problem)

    def _read(self, scope: Scope, receive: Receive) -> tuple[ApiOperation, ApiRequest]:
        """What is asked for, by whom. Raises ApiProblem (401, 403, 405, 422)."""
        operation = self._operations.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if operation is None:
            raise self._no_method(scope["method"])
        caller = self._authenticate(scope, operation.is_open)
        check_tenant(caller, of_platform=operation.of_platform)
        check_role(caller, operation.role)
        if caller.is_narrow:
            check_scope(caller, operation, scope["path_params"].get("name"))
        elif operation.by_service and self._deps.security.authentication.needs_key:
            check_service(caller)
        if not operation.is_open:
            scope[ROLE] = caller.role.value
        for name, value in scope["path_params"].items():
            if len(value) > LONGEST_IN_PATH:  # no call for each request
                check_length(name, value, LONGEST_IN_PATH)
        return operation, ApiRequest(
            caller=caller,
            deps=self._deps,
            scope=scope,
            receive=receive,
            path=scope["path_params"],
            query=read_query(scope["query_string"], operation.query),
            operation=operation.name,
            is_audited=operation.is_audited,
            note=_note_of(operation, scope) if operation.has_note else None,
        )

    def _count(self, scope: Scope, status: int, began: float) -> None:
        metrics, method = self._deps.shown.metrics, scope["method"]
        if metrics is not None:
            known = method if method in self._operations or method == "HEAD" else OTHER_METHOD
            seconds = time.perf_counter() - began
            metrics.count(method=known, route=self.path, status=status, seconds=seconds)

    def _no_method(self, method: str) -> ApiProblem:
        message = f"this path has no method {method}; it has {self._allow}"
        problem = refuse(HTTPStatus.METHOD_NOT_ALLOWED, "", "method", message)
        problem.headers = (("allow", self._allow),)
        return problem


async def _check_rights(request: ApiRequest) -> None:
    """Whether the caller still is one, and sees what the path names. Raises ApiProblem (401, 404, 409).

    A body takes as long as its sender likes.
    """
    request.deps.security.authentication.check_ended(request.caller)
    if request.caller.is_narrow:
        await check_sight(request)


def _routes(
    deps: ApiDependencies, authenticate: Authenticate, operations: tuple[ApiOperation, ...]
) -> Iterable[Route]:
    for path in dict.fromkeys(operation.path for operation in operations):
        own = [operation for operation in operations if operation.path == path]
        yield Route(path, Endpoint(deps=deps, authenticate=authenticate, operations=own))


def _mount(prefix: str, app: ASGIApp) -> Iterable[BaseRoute]:
    """`app` below `prefix`; the prefix itself redirects, so that relative links in its pages work.

    By a relative address: which prefix a proxy has before this path need not be known.
    """

    def add_slash(request: Request) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{prefix.rpartition('/')[2]}/{query}")

    return Route(prefix, add_slash, include_in_schema=False), Mount(prefix, app)


def _note_of(operation: ApiOperation, scope: Scope) -> AuditNote:
    """The line of a request in the audit: it is about what its path names."""
    return AuditNote(operation.audit_kind, mask_tokens(next(iter(scope["path_params"].values()), "")))


def _description(document: Callable[[], dict[str, Any]]) -> ApiOperation:
    written: list[bytes] = []

    async def show(request: ApiRequest) -> Response:
        """Read this description: OpenAPI 3.1, made at the first request, since that takes a while."""
        if not written:
            body = await work_apart(lambda: ENCODER.encode(document()))
            written[:] = [body]
        return Response(written[0], media_type="application/json")

    return ApiOperation(route="GET /openapi.json", handler=show, role=Role.VIEWER, is_open=True)


def _pages(document: Callable[[], dict[str, Any]], paths: Sequence[str]) -> Iterable[ApiOperation]:
    """What browsers are shown: they have no key, and nothing there is a secret."""
    front, reference = FrontPage(paths=paths), Reference(document=document)
    yield ApiOperation(route="GET /", handler=front.show, role=Role.VIEWER, is_open=True)
    yield ApiOperation(route="GET /docs", handler=reference.show, role=Role.VIEWER, is_open=True)


def _answer_unknown(
    deps: ApiDependencies, authenticate: Authenticate
) -> Callable[[Request, Any], Coroutine[Any, Any, Response]]:
    def answer_problem(request: Request, error: HTTPException) -> Response:
        try:
            authenticate(request.scope, False)
        except ApiProblem as problem:
            return _refusal(problem)
        message = f"there is nothing at {request.url.path[:200]!r}"
        return _refusal(refuse(HTTPStatus(error.status_code), "", "no_route", message))

    async def answer(request: Request, error: HTTPException) -> Response:
        began = time.perf_counter()
        response = answer_problem(request, error)
        if deps.shown.metrics is not None:
            seconds = time.perf_counter() - began
            deps.shown.metrics.count(
                method=OTHER_METHOD, route=NO_ROUTE, status=response.status_code, seconds=seconds
            )
        return response

    return answer


async def _answer_fault(request: Request, error: Exception) -> Response:
    return _refusal(_fault())


def _refusal(problem: ApiProblem) -> Response:
    """That of what no operation answered."""
    answer = fail(problem)
    answer.raw_headers += PROTECTING
    return answer


def _fault() -> ApiProblem:
    """A fault of this service: its log has the details, the answer has none."""
    message = "something went wrong here; it is in the service's log"
    return refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "", "internal", message)


class AccessLog:
    """An application in front of another one (ASGI).

    A line has the method, the route as the description of the API has it, the status (None: the caller has
    gone, or the application failed before it answered), the duration in ms, the bytes of the answer's body,
    and the caller's role (None: no key was needed, or it was refused). It has no path and no query: ids and
    tokens stand there.
    """

    def __init__(self, *, app: ASGIApp, log: Log, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._log = log
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Has the request answered, then writes its line."""
        began = self._clock()
        status: int | None = None
        size = 0

        async def count(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, count)
        finally:
            self._log(
                "request_answered",
                method=scope["method"][:LONGEST_METHOD],
                route=getattr(scope.get("endpoint"), "path", None),
                status=status,
                ms=round((self._clock() - began) * MILLISECONDS, 1),
                bytes=size,
                role=scope.get(ROLE),
            )
