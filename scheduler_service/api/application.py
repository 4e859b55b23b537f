"""The REST API as an ASGI application."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from scheduler_service.api.authentication import Authenticate, Authentication
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.endpoint import Endpoint
from scheduler_service.api.openapi import describe
from scheduler_service.api.request import ApiRequest, Operation
from scheduler_service.api.responses import ENCODER, ApiProblem, fail, refuse
from scheduler_service.api.routes import OPERATIONS
from scheduler_service.security.callers import Role


def create_api(
    deps: ApiDependencies,
    *,
    further: tuple[Operation, ...] = (),
    mounts: Mapping[str, ASGIApp] | None = None,
) -> FastAPI:
    """The API over `deps`, with more operations in `further` and other applications under `mounts`.

    FastAPI's own validation is not used: bodies are checked once, by the wire models, and answers are
    encoded once (decision 21); `/openapi.json` describes the same declarations. `mounts` maps a path prefix
    (`/console`) to an ASGI application; the API neither authenticates nor describes what is below it.
    """
    operations = (*OPERATIONS, *further)
    document = cache(lambda: describe(operations, version=deps.version))
    authenticate = Authentication(admin_key=deps.admin_key, tenant=deps.surroundings.tenant)
    api = FastAPI(
        title="Punctual",
        version=deps.version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _answer_unknown(authenticate), Exception: _answer_fault},
    )
    api.router.routes.extend(_routes(deps, authenticate, (*operations, _description(document))))
    for prefix, app in (mounts or {}).items():
        api.router.routes.extend(_mount(prefix, app))
    api.openapi = document  # type: ignore[method-assign]
    return api


def _routes(
    deps: ApiDependencies, authenticate: Authenticate, operations: tuple[Operation, ...]
) -> Iterable[BaseRoute]:
    for path in dict.fromkeys(operation.path for operation in operations):
        own = [operation for operation in operations if operation.path == path]
        yield Route(path, Endpoint(deps=deps, authenticate=authenticate, operations=own))


def _mount(prefix: str, app: ASGIApp) -> Iterable[BaseRoute]:
    """`app` below `prefix`; the prefix itself redirects, so that relative links in its pages work."""

    def add_slash(request: Request) -> Response:
        return RedirectResponse(request.url.replace(path=request.url.path + "/"))

    return Route(prefix, add_slash, include_in_schema=False), Mount(prefix, app)


def _description(document: Callable[[], dict[str, Any]]) -> Operation:
    async def show(request: ApiRequest) -> Response:
        """The API in OpenAPI 3.1; made at the first request, since that takes a while."""
        return Response(ENCODER.encode(document()), media_type="application/json")

    return Operation(
        route="GET /openapi.json", handler=show, role=Role.VIEWER, summary="Read this description"
    )


def _answer_unknown(authenticate: Authenticate) -> Callable[[Request, Any], Coroutine[Any, Any, Response]]:
    async def answer(request: Request, error: HTTPException) -> Response:
        try:
            authenticate(request.scope, False)
        except ApiProblem as problem:
            return fail(problem)
        message = f"there is nothing at {request.url.path[:200]!r}"
        return fail(refuse(HTTPStatus(error.status_code), "", "no_route", message))

    return answer


async def _answer_fault(request: Request, error: Exception) -> Response:
    """A fault of this service: its log has the details, the answer has none."""
    message = "something went wrong here; it is in the service's log"
    return fail(refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "", "internal", message))
