"""The REST API as an ASGI application."""

from collections.abc import Callable, Coroutine
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scheduler_service.api.authentication import Authentication
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.endpoint import Endpoint
from scheduler_service.api.openapi import describe
from scheduler_service.api.problems import ApiProblem, refuse
from scheduler_service.api.request import ApiRequest, Operation
from scheduler_service.api.responses import ENCODER, fail
from scheduler_service.api.routes import OPERATIONS


def create_api(parts: ApiDependencies, *, further: tuple[Operation, ...] = ()) -> FastAPI:
    """The API over `parts`, with the operations of other rooms in `further`.

    The routes are served without FastAPI's own validation: bodies are checked by the wire models, once, and
    answers are encoded once; `/openapi.json` describes the same declarations.
    """
    operations = (*OPERATIONS, *further)
    gate = Authentication(admin_key=parts.admin_key)
    document = cache(lambda: describe(operations, version=parts.version))
    served = (*operations, _description(document))
    api = FastAPI(
        title="Punctual",
        version=parts.version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _answer_unknown(gate), Exception: _answer_fault},
    )
    for path in dict.fromkeys(operation.path for operation in served):
        own = [operation for operation in served if operation.path == path]
        api.router.routes.append(Route(path, Endpoint(parts=parts, gate=gate, operations=own)))
    api.openapi = document  # type: ignore[method-assign]
    return api


def _description(document: Callable[[], dict[str, Any]]) -> Operation:
    async def take(call: ApiRequest) -> Response:
        """The API in OpenAPI 3.1; made when it is asked for first, since that takes a while."""
        return Response(ENCODER.encode(document()), media_type="application/json")

    return Operation(
        name="readDescription", method="GET", path="/openapi.json", take=take, summary="This", tag="operation"
    )


def _answer_unknown(gate: Authentication) -> Callable[[Request, Any], Coroutine[Any, Any, Response]]:
    async def answer(request: Request, error: HTTPException) -> Response:
        try:
            gate.check(request.scope, is_open=False)
        except ApiProblem as problem:
            return fail(problem)
        return fail(
            refuse(
                HTTPStatus(error.status_code),
                "",
                "no_route",
                f"there is nothing at {request.url.path[:200]!r}",
            )
        )

    return answer


async def _answer_fault(request: Request, error: Exception) -> Response:
    """A fault of ours; what it was stands in the log, not in the answer."""
    message = "something went wrong here; it is in the service's log"
    return fail(refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "", "internal", message))
