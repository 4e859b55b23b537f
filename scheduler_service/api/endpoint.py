"""One path of the API: authenticates, picks the operation by method, and answers refusals as problems."""

from collections.abc import Iterable
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scheduler_service.api.authentication import Authenticate, check_role
from scheduler_service.api.bodies import ClientGone
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.parameters import read_query
from scheduler_service.api.request import ApiRequest, Operation
from scheduler_service.api.responses import ApiProblem, fail, invalid, refuse, store_problem
from scheduler_service.persistence.common.cursor import CursorError
from scheduler_service.ports.errors import StoreError


class Endpoint:
    """An ASGI endpoint for all operations of one path."""

    def __init__(
        self, *, deps: ApiDependencies, authenticate: Authenticate, operations: Iterable[Operation]
    ) -> None:
        self._deps = deps
        self._authenticate = authenticate
        self._operations = {operation.method: operation for operation in operations}
        self._allow = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. Raises only what is a fault of this service."""
        try:
            response = await self._run(scope, receive)
        except ApiProblem as problem:
            response = fail(problem)
        except CursorError as error:
            response = fail(invalid("/cursor", "invalid", str(error)))
        except StoreError as error:
            response = fail(store_problem(error, is_read=scope["method"] in ("GET", "HEAD")))
        except ClientGone:
            return
        await response(scope, receive, send)

    async def _run(self, scope: Scope, receive: Receive) -> Response:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation = self._operations.get(method)
        if operation is None:
            raise self._no_method(scope["method"])
        caller = self._authenticate(scope, operation.is_open)
        check_role(caller, operation.role)
        request = ApiRequest(
            caller=caller,
            deps=self._deps,
            scope=scope,
            receive=receive,
            path=scope["path_params"],
            query=read_query(scope["query_string"], operation.query),
        )
        return await operation.handler(request)

    def _no_method(self, method: str) -> ApiProblem:
        message = f"this path has no method {method}; it has {self._allow}"
        problem = refuse(HTTPStatus.METHOD_NOT_ALLOWED, "", "method", message)
        problem.headers = (("allow", self._allow),)
        return problem
