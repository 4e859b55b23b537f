"""Requests to targets: steps, checks, cancelUrl and notifications (SPEC sections 4, 5, 7)."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from client_sdk.models.fields import (
    LARGEST,
    VARIABLE,
    Codes,
    FilledText,
    InstanceId,
    Integer,
    Method,
    PositiveCount,
    PositiveSeconds,
    Seconds,
    Tags,
    Text,
    WireModel,
    read_integer,
    refuse,
)

ROUTING_MEMBERS = ("route", "tags")
QUEUE_MEMBERS = (
    "specificInstances",
    "parallelism",
    "priority",
    "leaseSeconds",
    "renewSeconds",
    "maxUnexpectedRetries",
    "unexpectedRetryDelaySeconds",
    "queueTimeoutSeconds",
)
"""Members of a step for `service://` only, and for `queue://` only (SPEC section 13)."""
SENT_MEMBERS = (
    "timeoutSeconds",
    "successCodes",
    "followRedirects",
    "successWhen",
    "errorFrom",
    "messageFrom",
)
"""Members about sending a request; a step for `queue://` is not sent."""
MAX_INSTANCES = 1_000
SHORTEST_LEASE, SHORTEST_RENEWAL = 1.0, 0.1
"""In seconds. A lease must outlast its renewal call, and renewals must not flood the scheduler."""
LEASE_SECONDS, RETRIES, DELAY_SECONDS = 60.0, 3, 10.0
"""The defaults of `leaseSeconds`, `maxUnexpectedRetries` and `unexpectedRetryDelaySeconds`."""
RENEWALS_OF_A_LEASE = 2
"""So often a lease is renewed within its length, if `renewSeconds` does not ask for more."""
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
REFUSED_HEADERS = frozenset({"host", "content-length", "connection", "transfer-encoding"})
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    seen: set[str] = set()
    for name, value in headers.items():
        _check_header(name, value, seen)
        seen.add(name.lower())
    return headers


def _check_header(name: str, value: str, seen: set[str]) -> None:
    lowered = name.lower()
    if not TOKEN.fullmatch(name):
        raise refuse("header", "is not a header name: use letters, digits and '-' (RFC 9110)", member=name)
    if lowered in REFUSED_HEADERS or lowered.startswith("x-scheduling-"):
        raise refuse("header", "is set by the scheduler itself; remove it", member=name)
    if lowered in seen:
        raise refuse("header", "is given twice (header names are case-insensitive)", member=name)
    if CONTROL.search(value):
        raise refuse("header", "has a control character in its value; remove it", member=name)


Headers = Annotated[dict[str, str], AfterValidator(_check_headers)]


def _read_success_code(code: object) -> object:
    code = read_integer(code)
    if isinstance(code, str) and re.fullmatch(r"[1-5][xX]{2}", code):
        return code.lower()
    if type(code) is int and 100 <= code <= 599:
        return code
    raise refuse("invalid", 'must be an HTTP status from 100 to 599, or a class like "2xx"')


SuccessCode = Annotated[
    int | str,
    BeforeValidator(
        _read_success_code,
        json_schema_input_type=Annotated[int, Field(ge=100, le=599)]
        | Annotated[str, Field(pattern="^[1-5][xX]{2}$")],
    ),
]


Route = Literal["random", "round_robin", "least_busy", "hash", "failover", "broadcast", "shard"]


class RequestStep(WireModel):
    """One step of the chain. `body` absent is not `body` null: see `has_body`."""

    method: Method = "POST"
    url: FilledText
    service_name: FilledText | None = None
    headers: Headers = Field({})
    body: Any = None
    resp_env_name: Annotated[str, Field(pattern=VARIABLE)] | None = None
    success_codes: Annotated[list[SuccessCode], Field(min_length=1)] = Field(["2xx"])
    success_when: FilledText | None = None
    error_from: FilledText | None = None
    message_from: FilledText | None = None
    sign: FilledText | None = None
    follow_redirects: Annotated[Integer, Field(ge=0, le=5)] = 0
    retry_from: Literal["chain", "step"] = "chain"
    timeout_seconds: PositiveSeconds | None = None
    route: Route | None = None
    tags: Tags | None = None
    specific_instances: Annotated[list[InstanceId], Field(max_length=MAX_INSTANCES)] | None = None
    parallelism: PositiveCount | None = None
    priority: Annotated[Integer, Field(ge=-1_000_000_000, le=1_000_000_000)] | None = None
    lease_seconds: Annotated[float, Field(ge=SHORTEST_LEASE, le=LARGEST)] | None = None
    renew_seconds: Annotated[float, Field(ge=SHORTEST_RENEWAL, le=LARGEST)] | None = None
    max_unexpected_retries: Annotated[Integer, Field(ge=0, le=1_000_000_000)] | None = None
    unexpected_retry_delay_seconds: Seconds | None = None
    queue_timeout_seconds: PositiveSeconds | None = None

    @property
    def has_body(self) -> bool:
        """Whether a body is sent: `body` was given, be it null."""
        return "body" in self.model_fields_set


class CancelUrl(RequestStep):
    """Called once, ignoring the answer, when an execution in flight is cancelled or times out."""


class CheckUrl(WireModel):
    """The check of an asynchronous job; always a GET without a body."""

    method: Annotated[
        str, BeforeValidator(lambda value: _check_get(value), json_schema_input_type=Literal["GET"])
    ] = "GET"
    url: FilledText
    service_name: FilledText | None = None
    headers: Headers = Field({})
    sign: FilledText | None = None
    timeout_seconds: PositiveSeconds | None = None
    success_when: FilledText | None = None
    error_from: FilledText | None = None
    message_from: FilledText | None = None


def _check_get(value: object) -> str:
    if isinstance(value, str) and value.upper() == "GET":
        return "GET"
    raise refuse("choice", "must be GET: a check is always a GET; remove it or write GET")


class Notification(WireModel):
    """Notifies about events of an execution (SPEC section 7). `body` absent: the whole message."""

    name: Text = ""
    method: Method = "POST"
    url: FilledText
    headers: Headers = Field({})
    body: Any = None
    state_equals: Codes = Field([])
    dedupe: Literal["none", "onChange"] = "none"
    guarantee: Literal["none", "outbox"] = "none"
    sign: FilledText | None = None
    success_when: FilledText | None = None
    error_from: FilledText | None = None
    message_from: FilledText | None = None

    @property
    def has_body(self) -> bool:
        """Whether a body of its own was given, be it null."""
        return "body" in self.model_fields_set

    @property
    def keys(self) -> frozenset[str]:
        """The keys of `stateEquals`; empty: every event."""
        given = [self.state_equals] if isinstance(self.state_equals, str) else self.state_equals
        return frozenset(key for key in given if key)
