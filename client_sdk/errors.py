"""The errors of the SDK: one root, split by whose fault it is.

SdkError
├── Unreachable            no answer came: the service is down, or the network is
├── Unreadable             something answered, but not a service of this kind
├── Problem                the service said no (RFC 9457); by status:
│   ├── Invalid            400, 413, 415, 422: what was sent
│   ├── Unauthorized       401: no key, or an unknown one
│   ├── Forbidden          403: this key, or this feedback token, may not
│   ├── Absent             404: there is no such thing
│   ├── Conflict           409: it is otherwise already, has ended, or the lease is lost
│   ├── Outdated           412: somebody changed it meanwhile
│   ├── LimitReached       429: too much at once
│   └── Unavailable        503: nothing was done, or (`is_unknown`) nobody knows
├── WaitTimedOut           what was waited for has not ended in time
├── SignatureRefused       a request whose signature does not hold
├── DeclarationError       a job that cannot be declared as it is written
├── NotWanted              nobody waits for this work any more: stop it
└── JobFailed              raised by a job's own function: it failed, and with which code

An argument that no call can use is told as Python tells it, before anything is done: ValueError or TypeError.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Flaw(NamedTuple):
    """One thing that is wrong: where (RFC 6901), what, and in words."""

    pointer: str
    code: str
    message: str


class SdkError(Exception):
    """The root of all errors that the SDK raises on purpose, but for arguments that no call can use."""


class Unreachable(SdkError):
    """No answer came, after every try; the cause is chained."""


class Unreadable(SdkError):
    """What answered is no scheduler, or a proxy spoke in its place."""


class Problem(SdkError):
    """The service refused. `errors` say what is wrong where; `retry_after` in seconds, None: not said."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str = "",
        errors: tuple[Flaw, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.title = title
        self.errors = errors
        self.retry_after = retry_after

    @property
    def codes(self) -> frozenset[str]:
        """The codes of `errors`."""
        return frozenset(error.code for error in self.errors)


class Invalid(Problem):
    """What was sent is refused (400, 413, 415, 422)."""


class Unauthorized(Problem):
    """No key, or one that the service does not know (401)."""


class Forbidden(Problem):
    """Not with this key, or not with this feedback token (403)."""


class Absent(Problem):
    """There is no such thing, or it is another tenant's (404)."""


class Conflict(Problem):
    """It is otherwise already, it has ended, or a lease is lost (409)."""


class Outdated(Problem):
    """It has another revision than the one that was named (412)."""


class LimitReached(Problem):
    """A limit is reached (429); `retry_after` says when to come again."""


class Unavailable(Problem):
    """No host or no store (503)."""

    @property
    def is_unknown(self) -> bool:
        """Whether it may have been done all the same: ask, or repeat it with the same Idempotency-Key."""
        return "unknown" in self.codes


class WaitTimedOut(SdkError):
    """What was waited for has not ended in time; it goes on."""


class SignatureRefused(SdkError):
    """A request is not signed, or not by one of the secrets, or not now."""


class DeclarationError(SdkError):
    """A job cannot be declared as it is written; says which one, why, and what to write."""


class NotWanted(SdkError):
    """Nobody waits for this work any more: it was cancelled, ran out of time, or its lease is lost."""


class JobFailed(SdkError):
    """A job's function failed in a way that it knows.

    `error` is the code that retry policies see where the outcome is reported by feedback or from a queue;
    a synchronous job's code is its HTTP `status`. `retry_after` (seconds) lengthens the wait of a retry.
    """

    def __init__(
        self,
        message: str,
        *,
        error: str | None = None,
        status: int = 500,
        data: Any = None,
        retry_after: float | None = None,
    ) -> None:
        if not 400 <= status <= 599:
            raise ValueError(f"status {status} is no failure: give one from 400 to 599")
        super().__init__(message)
        self.message = message
        self.error = str(status) if error is None else error
        self.status = status
        self.data = data
        self.retry_after = retry_after


BY_STATUS: Mapping[int, type[Problem]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: Absent,
    409: Conflict,
    412: Outdated,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: LimitReached,
    503: Unavailable,
}
