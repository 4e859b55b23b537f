"""What goes out to a target and what comes back: values, without a socket in sight."""

from enum import StrEnum
from typing import final

import msgspec

Headers = tuple[tuple[str, str], ...]


class OutboundRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One HTTP request, rendered: sent again after a crash it is equal byte by byte (SPEC section 4).

    `url` is absolute and still carries its scheme (`http`, `https`, `service`): the transport resolves it.
    `trace` is the trace id (32 hex digits) from which the sender makes a fresh `traceparent`, unless the
    headers bring one of their own. `base` is the address of the instance to which a `service:` URL was
    resolved; empty: the transport knows where the service is.
    """

    method: str
    url: str
    headers: Headers
    body: bytes | None = None
    timeout: int = 60_000
    redirects: int = 0
    trace: str = ""
    base: str = ""


class Answer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The target answered. `body` is cut at the limit, `truncated` says so; `elapsed` in ms.

    `url` is the address that answered in the end, after redirects.
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


@final
class Fault(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """No answer came, and why; `message` names the address and the remedy, never a secret."""

    kind: FaultKind
    message: str
    elapsed: int = 0


Outcome = Answer | Fault


class CallKind(StrEnum):
    """What a call is for."""

    STEP = "step"
    CHECK = "check"
    PART = "part"
    RESOLVE = "resolve"


class Token(msgspec.Struct, frozen=True, gc=False):
    """Names one call of one life of a job; an answer whose token is not the awaited one changes nothing.

    `serial` is the step's index for a step, the number of the check for a check, and for the parts of a
    step and for what resolves its instances a number that the attempt uses once.
    """

    uid: str
    execute_number: int
    request_counts: int
    kind: CallKind
    serial: int


class Holder(msgspec.Struct, frozen=True, gc=False):
    """Who runs the open calls of an execution: a node, and one start of its process."""

    node: str
    boot: str
