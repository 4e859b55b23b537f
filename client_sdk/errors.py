"""The errors of the SDK: one root, split by whose fault it is.

SdkError
├── Unreachable            no answer came: the service or the network is down
├── Unreadable             the answer does not come from a scheduler
├── Problem                the service refused the call (RFC 9457); by status:
│   ├── Invalid            400, 413, 415, 422: the request is invalid
│   ├── Unauthorized       401: no key, or an unknown one
│   ├── Forbidden          403: this key or feedback token has no permission
│   ├── Absent             404: it does not exist
│   ├── Conflict           409: it exists differently, has ended, or the lease is lost
│   ├── Outdated           412: it was changed meanwhile
│   ├── LimitReached       429: too many calls at once
│   └── Unavailable        503: nothing was done, or (`is_unknown`) that is unknown
├── WaitTimedOut           the execution did not end in time
├── ExecutionFailed        it ended and has no result: `error`, `execution`
├── SignatureRefused       the signature of a request is not valid
├── DeclarationError       a job cannot be declared as written
├── NotWanted              the result of this work is no longer awaited: stop it
└── JobFailed              raised by a job's own function to fail with a code

An invalid argument raises ValueError or TypeError before anything is sent.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Flaw(NamedTuple):
    """One error: its place (RFC 6901), its code, and a message."""

    pointer: str
    code: str
    message: str


class SdkError(Exception):
    """The root of all errors of the SDK, except ValueError and TypeError for invalid arguments."""


class Unreachable(SdkError):
    """No answer came, after all tries; the cause is chained.

    `was_sent`: the service may have done what was asked, and only its answer is missing.
    """

    def __init__(self, message: str, *, was_sent: bool = False) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class Unreadable(SdkError):
    """The answer is not a scheduler's; a proxy may have sent it."""


class Problem(SdkError):
    """The service refused the call. `errors` list why; `retry_after` in seconds, None: not given."""

    remedy = ""
    """What a program does about it, after `detail` in the message."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str = "",
        errors: tuple[Flaw, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status}: {detail}{self.remedy}")
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
    """The request is invalid (400, 413, 415, 422)."""


class Unauthorized(Problem):
    """There is no key, or it is unknown (401)."""

    remedy = "; give it as Client(url, key=…): the scheduler's setting server.key, or PUNCTUAL_SERVER__KEY"


class Forbidden(Problem):
    """This key or feedback token has no permission (403)."""


class Absent(Problem):
    """It does not exist, or belongs to another tenant (404)."""


class Conflict(Problem):
    """It exists differently, it has ended, or a lease is lost (409)."""


class Outdated(Problem):
    """Its revision is not the given one (412)."""


class LimitReached(Problem):
    """A limit is reached (429); `retry_after` says when to try again."""


class Unavailable(Problem):
    """The scheduler or its store is not available (503)."""

    @property
    def is_unknown(self) -> bool:
        """Whether the call may have taken effect: read, or repeat it with the same Idempotency-Key."""
        return "unknown" in self.codes


class WaitTimedOut(SdkError):
    """The execution did not end in time; it continues."""


class ExecutionFailed(SdkError):
    """The execution whose result is asked for did not succeed.

    `error` is its code, None where it has none, as a skipped one; `execution` has all that is known of it.
    """

    def __init__(self, message: str, *, error: str | None, execution: Any) -> None:
        super().__init__(message)
        self.error = error
        self.execution = execution


class SignatureRefused(SdkError):
    """A request is unsigned, signed with another secret, or at another time."""


class DeclarationError(SdkError):
    """A job cannot be declared as written; the message says which one, why, and what to write."""


class NotWanted(SdkError):
    """The work is no longer awaited: it was cancelled, has timed out, or its lease is lost."""


class JobFailed(SdkError):
    """Raised by a job's function to fail with a code.

    `error` is the code for retry policies if the outcome is reported by feedback or from a queue; the code of
    a synchronous job is its HTTP `status`. `retry_after` (seconds) lengthens the wait before a retry.
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
        if status not in range(400, 600):
            raise ValueError(f"status {status} is not a failure: give one from 400 to 599")
        if retry_after is not None and not 0 <= retry_after < math.inf:
            raise ValueError(f"retry_after {retry_after} is no time to wait: give seconds, 0 or more")
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
