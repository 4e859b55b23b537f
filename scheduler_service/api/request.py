"""One request on its way through the API, and the operation that takes it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import Receive, Scope

from client_sdk.models import JOB_ID_FORM
from scheduler_service.api.bodies import header, read_body, read_json
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.parameters import read_integer
from scheduler_service.api.problems import invalid
from scheduler_service.api.queries import LARGEST, Parameter, Values
from scheduler_service.ports.state import Remembered

KEY_LENGTH = 255


class ApiRequest:
    """What an operation gets: the parts, the path's and query's values, and the body when it asks."""

    __slots__ = ("parts", "path", "query", "receive", "scope")

    def __init__(
        self,
        *,
        parts: ApiDependencies,
        scope: Scope,
        receive: Receive,
        path: Mapping[str, str],
        query: Values,
    ) -> None:
        self.parts = parts
        self.scope = scope
        self.receive = receive
        self.path = path
        self.query = query

    @property
    def job_id(self) -> str:
        """`jobId` of the path. Raises ApiProblem (422) where it cannot be one."""
        job_id = self.path["jobId"]
        if JOB_ID_FORM.fullmatch(job_id) is None:
            raise invalid("/jobId", "pattern", f"jobId {job_id[:140]!r} is not well formed; {_FORM_OF_ID}")
        return job_id

    def number(self, name: str) -> int:
        """A number of the path. Raises ApiProblem (422)."""
        try:
            return read_integer(self.path[name], 0, LARGEST)
        except ValueError as error:
            raise invalid(f"/{name}", "invalid", f"{name} {self.path[name][:80]!r} {error}") from None

    async def body(self, limit: int | None = None) -> bytes:
        """The raw body. Raises ApiProblem (413, 415)."""
        return await read_body(self.scope, self.receive, self.parts.body_bytes if limit is None else limit)

    async def object(self, limit: int | None = None) -> tuple[bytes, dict[str, object]]:
        """The body, a JSON object; none counts as `{}`. Raises ApiProblem (400, 413, 415, 422)."""
        raw = await self.body(limit) or b"{}"
        value = read_json(raw)
        if not isinstance(value, dict):
            raise invalid("", "type", "the body must be a JSON object")
        return raw, value

    def remembered(self, subject: str, raw: bytes) -> Remembered | None:
        """What an Idempotency-Key asks to be kept; None without one. Raises ApiProblem (422)."""
        key = header(self.scope, b"idempotency-key")
        if key is None:
            return None
        if not 0 < len(key) <= KEY_LENGTH or not key.isprintable() or not key.isascii():
            raise invalid(
                "/Idempotency-Key", "invalid", f"use 1 to {KEY_LENGTH} printable ASCII characters as the key"
            )
        digest = sha256(self.scope["query_string"] + b"\n" + raw).digest()
        return Remembered(subject, key, digest, b"", self.parts.clock.now().wall)


_FORM_OF_ID = "use 1 to 128 of letters, digits, '.', '_', ':' and '-', the first a letter or digit"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path: what takes it, and what OpenAPI says of it.

    `body` and `data` are models of the wire format, None: there is none. `is_open`: no key is needed, since
    it brings a token of its own or tells nothing.
    """

    name: str
    method: str
    path: str
    take: Callable[[ApiRequest], Awaitable[Response]]
    summary: str
    tag: str
    query: tuple[Parameter, ...] = ()
    body: object = None
    body_required: bool = False
    body_example: object = None
    data: object = None
    statuses: tuple[HTTPStatus, ...] = ()
    success: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    headers: tuple[str, ...] = ()
    is_open: bool = False
    is_array: bool = False
