"""How the API answers: the envelope of a success, and the problem of a failure, encoded once."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from scheduler_service.api.problems import ApiProblem, Flaw, write_flaw

ENCODER = msgspec.json.Encoder()


def succeed(
    data: object,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    warnings: Iterable[Flaw] = (),
    headers: Mapping[str, str] | None = None,
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
    return Response(
        ENCODER.encode(problem.body()), problem.status, dict(problem.headers), "application/problem+json"
    )
