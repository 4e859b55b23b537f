"""A path of the API: picks the operation by method, and turns whatever is refused into a problem."""

from collections.abc import Iterable
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scheduler_service.api.authentication import Authentication
from scheduler_service.api.bodies import ClientGone
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.problems import ApiProblem, invalid, refuse, unavailable, uncertain
from scheduler_service.api.queries import read_query
from scheduler_service.api.request import ApiRequest, Operation
from scheduler_service.api.responses import fail
from scheduler_service.persistence.common.cursor import CursorError
from scheduler_service.ports.errors import StoreError, StoreUncertain


class Endpoint:
    """An ASGI endpoint for all operations of one path."""

    def __init__(
        self, *, parts: ApiDependencies, gate: Authentication, operations: Iterable[Operation]
    ) -> None:
        self._parts = parts
        self._gate = gate
        self._operations = {operation.method: operation for operation in operations}
        self._allow = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. Raises only what is a fault of ours."""
        try:
            response = await self._take(scope, receive)
        except ApiProblem as problem:
            response = fail(problem)
        except CursorError as error:
            response = fail(invalid("/cursor", "invalid", str(error)))
        except StoreUncertain as error:
            reads = scope["method"] in ("GET", "HEAD")
            response = fail(unavailable(str(error)) if reads else uncertain(str(error)))
        except StoreError as error:
            response = fail(unavailable(str(error)))
        except ClientGone:
            return
        await response(scope, receive, send)

    async def _take(self, scope: Scope, receive: Receive) -> Response:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation = self._operations.get(method)
        if operation is None:
            raise self._no_method(scope["method"])
        self._gate.check(scope, operation.is_open)
        query = read_query(scope["query_string"], operation.query)
        call = ApiRequest(
            parts=self._parts, scope=scope, receive=receive, path=scope["path_params"], query=query
        )
        return await operation.take(call)

    def _no_method(self, method: str) -> ApiProblem:
        problem = refuse(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "",
            "method",
            f"{method} is not for this path; it knows {self._allow}",
        )
        problem.headers = (("allow", self._allow),)
        return problem
