"""Requests to targets and their outcomes, as values."""

from enum import StrEnum
from typing import final

import msgspec

from scheduler_service.domain.job_key import DEFAULT_TENANT

Headers = tuple[tuple[str, str], ...]


class AtSend(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a request gets when it is sent, and not before: values of secrets (SPEC section 14).

    `mark` and a number stand in it where the secret of that number in `names` goes (`domain.secret_places`);
    empty: it has none itself, and its job has some.
    """

    tenant: str
    mark: str = ""
    names: tuple[str, ...] = ()


class OutboundRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One rendered HTTP request; a request sent again after a crash is equal byte by byte (SPEC section 4).

    `url` is absolute with its scheme (`http`, `https`, `service`): the transport resolves it. `trace` is the
    trace id (32 hex digits) of its `traceparent`, unless the headers have one, and `span` the rest of that,
    `SPAN-FLAGS`; empty: the sender makes a new one.
    `base` is the address of the instance chosen for a `service:` URL; empty: the transport finds it.
    `awaited`: for how many ms after it is sent its work is awaited; 0: as long as its answer, `timeout`. The
    sender makes `X-Scheduling-Deadline` of it, so a request that is sent again has a deadline of its own.
    `at_send`: what is added when it is sent; None: nothing.
    `sign` names the secret of `tenant` with which the sender signs each try anew; empty: it is not signed.
    `vouched`: whether `base` may be private (SPEC section 9); None: an earlier version chose it.
    """

    method: str
    url: str
    headers: Headers
    body: bytes | None = None
    timeout: int = 60_000
    redirects: int = 0
    trace: str = ""
    base: str = ""
    awaited: int = 0
    span: str = ""
    at_send: AtSend | None = None
    sign: str = ""
    tenant: str = DEFAULT_TENANT
    vouched: bool | None = None


class Answer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The target answered. `truncated`: `body` was cut at the limit; `elapsed` in ms.

    `url` is the address that answered, after redirects.
    """

    status: int
    headers: Headers = ()
    body: bytes = b""
    truncated: bool = False
    elapsed: int = 0
    url: str = ""


class FaultKind(StrEnum):
    """Why no answer came."""

    CONNECT = "connect"  # refused, reset, no such name, broken protocol
    TIMEOUT = "timeout"  # the HTTP timeout of the call ran out
    EGRESS = "egress"  # the address guard refused the target
    NO_INSTANCE = "no_instance"  # the service has no address
    TEMPLATE = "template"  # a secret is missing, or cannot stand where it is named, or cannot sign


@final
class Fault(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """No answer came; `message` names the address and the remedy, never a secret.

    `unsent`: no connection was made, so that nothing of the request was sent.
    """

    kind: FaultKind
    message: str
    elapsed: int = 0
    unsent: bool = False


Outcome = Answer | Fault


class CallKind(StrEnum):
    """What a call is for."""

    STEP = "step"
    CHECK = "check"
    PART = "part"
    RESOLVE = "resolve"
    WATCH = "watch"


class Token(msgspec.Struct, frozen=True, gc=False):
    """Identifies one call of one life of a job; an answer whose token is not awaited changes nothing.

    `serial` is the index of a step, the number of a check, the part whose instance is watched, or, for parts
    and the search for instances, a number that the attempt uses once.
    """

    uid: str
    execute_number: int
    request_counts: int
    kind: CallKind
    serial: int


class Holder(msgspec.Struct, frozen=True, gc=False):
    """The process that runs the open calls of an execution: a node, and one start of it."""

    node: str
    boot: str


def write_holder(holder: Holder) -> str:
    """A holder as one text."""
    return f"{holder.node} {holder.boot}"


Flights = tuple[tuple[Holder, tuple[Token, ...]], ...]
"""Calls of a job in flight, by the process that made them."""


class LastBegun(msgspec.Struct, frozen=True, gc=False):
    """A process that has ended: of executions that began after `moment` (wall) it has sent nothing."""

    holder: Holder
    moment: int
