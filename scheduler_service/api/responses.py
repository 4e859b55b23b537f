"""Answers: the envelope of a success (SPEC section 10), the problem of a refusal (RFC 9457)."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.pacing.slices import Slices
from scheduler_service.persistence.common.pagination import CursorError
from scheduler_service.ports.errors import StoreError, StoreStopping, StoreUncertain
from scheduler_service.services.registry import DeclarationsFull
from scheduler_service.telemetry.log_summaries import Tally

ENCODER = msgspec.json.Encoder()

STATUSES: Mapping[RefusalCode, HTTPStatus] = {
    RefusalCode.ABSENT: HTTPStatus.NOT_FOUND,
    RefusalCode.CONFLICT: HTTPStatus.CONFLICT,
    RefusalCode.PRECONDITION: HTTPStatus.PRECONDITION_FAILED,
    RefusalCode.FORBIDDEN: HTTPStatus.FORBIDDEN,
    RefusalCode.STALE: HTTPStatus.CONFLICT,
    RefusalCode.DISABLED: HTTPStatus.CONFLICT,
    RefusalCode.INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    RefusalCode.LIMIT: HTTPStatus.TOO_MANY_REQUESTS,
}

HIDDEN_FAULT = "the store cannot be used now; the log of the service says why"
MOST_ERRORS = 100
"""The number of errors that an answer lists; the detail says how many more there are."""
PIECE_BYTES = 65_536
PROTECTING = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""Headers of every answer: nobody on its way keeps it, no browser takes it for another type than it has."""


class FoundFlaw(Protocol):
    """One thing that is wrong, found by the wire models or by the core."""

    @property
    def pointer(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...


class ApiProblem(PunctualError):
    """A refused request; the API answers it as a problem. `errors` have their wire form.

    `further` are members beside those of every problem.
    """

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        errors: tuple[dict[str, str], ...] = (),
        headers: tuple[tuple[str, str], ...] = (),
        further: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.further = further or {}
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = headers

    def body(self) -> dict[str, Any]:
        """The members of the problem (RFC 9457, section 3), with the envelope's own beside them."""
        return {
            "type": "about:blank",
            "title": title_of(self.status),
            "status": int(self.status),
            "detail": self.detail,
            "errors": list(self.errors),
            "resp_code": int(self.status),
            "resp_msg": self.detail,
            **self.further,
        }


def succeed(
    data: object,
    headers: Mapping[str, str] | None = None,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    warnings: Iterable[FoundFlaw] = (),
) -> Response:
    """`data` in the envelope of SPEC section 10; `resp_code` is 200 whatever the status."""
    body = {
        "resp_code": 200,
        "resp_msg": None,
        "data": data,
        "warnings": [write_flaw(warning) for warning in warnings],
    }
    return Response(ENCODER.encode(body), status, headers, "application/json")


def fail(problem: ApiProblem) -> Response:
    """`problem` as `application/problem+json`."""
    body, headers = ENCODER.encode(problem.body()), dict(problem.headers)
    return Response(body, problem.status, headers, "application/problem+json")


def title_of(status: HTTPStatus) -> str:
    """The name of a status in RFC 9110; older Pythons have other names for some."""
    return {413: "Content Too Large", 422: "Unprocessable Content"}.get(int(status), status.phrase)


def write_flaw(flaw: FoundFlaw) -> dict[str, str]:
    """An error or warning in its wire form."""
    return {"pointer": flaw.pointer, "code": flaw.code, "message": flaw.message}


def refuse(
    status: HTTPStatus, pointer: str, code: str, message: str, *, retry_seconds: int | None = None
) -> ApiProblem:
    """A problem with one error; `retry_seconds`: after so long the request may be sent again."""
    headers = () if retry_seconds is None else (("retry-after", str(retry_seconds)),)
    errors = ({"pointer": pointer, "code": code, "message": message},)
    return ApiProblem(status, message, errors=errors, headers=headers)


def full(message: str) -> ApiProblem:
    """A 429: there is no room until somebody removes something, and nobody knows when."""
    return refuse(HTTPStatus.TOO_MANY_REQUESTS, "", "limit", message, retry_seconds=60)


def invalid(pointer: str, code: str, message: str) -> ApiProblem:
    """A 422 with one error: the request is well formed, but not valid."""
    return refuse(HTTPStatus.UNPROCESSABLE_ENTITY, pointer, code, message)


def invalid_all(flaws: Iterable[FoundFlaw]) -> ApiProblem:
    """A 422 with all errors: the first 100 one by one, the others as their number."""
    found = tuple(flaws)
    errors = tuple(write_flaw(flaw) for flaw in found[:MOST_ERRORS])
    detail = found[0].message + (f"; and {len(found) - 1} more" if len(found) > 1 else "")
    return ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=errors)


def absent(pointer: str, message: str) -> ApiProblem:
    """A 404: it does not exist, or belongs to another tenant."""
    return refuse(HTTPStatus.NOT_FOUND, pointer, "absent", message)


def no_job(job_key: str) -> ApiProblem:
    """A 404: there is no such job, or it is another tenant's."""
    return absent("/jobId", f"there is no job {read_job_key(job_key)[1]!r}")


def refused(refusal: Refusal) -> ApiProblem:
    """The refusal of a turn as a problem."""
    code, reached = refusal.code, refusal.limit
    wait = -(-(refusal.retry_after if reached is None else reached.retry_after) // SECOND) or None
    problem = refuse(STATUSES[code], refusal.pointer, code.value, refusal.message, retry_seconds=wait)
    if reached is not None:
        problem.further = {"limit": {"name": reached.name, "value": reached.value}}
    return problem


def refusal_of(error: Exception) -> ApiProblem | None:
    """What a caller is told whose request is refused by `error`; None: it is no refusal."""
    match error:
        case ApiProblem():
            return error
        case CursorError():
            return invalid("/cursor", "invalid", str(error))
        case DeclarationsFull():
            return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "/timers", "too_large", str(error))
    return None


def count_fault(faults: Tally, error: StoreError) -> None:
    """Counts, in the log, a request that the store failed; that a process stops is no fault of it."""
    if not isinstance(error, StoreStopping):
        faults.count("requests", error=str(error))


def explain_fault(error: StoreError) -> str:
    """The text of a public error; what a database said may name files, addresses and users."""
    return str(error) if error.is_public else HIDDEN_FAULT


def store_problem(error: StoreError, *, is_read: bool = False) -> ApiProblem:
    """A 503: nothing was done; where that is not known, the code is `unknown`."""
    reason = explain_fault(error)
    code, message = "unavailable", f"nothing was done: {reason}"
    if isinstance(error, StoreUncertain) and not is_read:
        remedy = "ask again, or repeat it with the same Idempotency-Key"
        code, message = "unknown", f"it is not known whether this was done ({reason}); {remedy}"
    return refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", code, message, retry_seconds=1)


@contextmanager
def after_change(what: str) -> Iterator[None]:
    """A store that fails inside does not say that nothing was done: `what` was. Raises StoreUncertain."""
    try:
        yield
    except StoreError as error:
        raise StoreUncertain(f"{what}; then {error}", is_public=error.is_public) from error


class LongAnswer(Response):
    """`data`, which is not empty, and the member `name`, `text` in JSON, in the envelope of `succeed`.

    The loop does other things between two pieces, however fast the caller reads. `owner` is kept until the
    answer has been sent.
    """

    def __init__(
        self,
        data: Mapping[str, object],
        name: str,
        text: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        owner: object = None,
        status: HTTPStatus = HTTPStatus.OK,
        warnings: Iterable[FoundFlaw] = (),
    ) -> None:
        begin = b'{"resp_code":200,"resp_msg":null,"data":' + ENCODER.encode(data)[:-1]
        begin += b"," + ENCODER.encode(name) + b":"
        end = b'},"warnings":' + ENCODER.encode([write_flaw(one) for one in warnings]) + b"}"
        self._parts = (begin, text, end)
        self._owner = owner
        length = {"content-length": str(sum(map(len, self._parts)))}
        super().__init__(None, status, {**(headers or {}), **length}, "application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it (ASGI)."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        slices = Slices()
        for piece in self._pieces():
            await slices.pause(len(piece))
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _pieces(self) -> Iterator[bytes]:
        for part in self._parts:
            for start in range(0, len(part), PIECE_BYTES):
                yield part[start : start + PIECE_BYTES]
