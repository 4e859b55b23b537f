"""What a turn says to who delivered the event. Verdicts are values: nothing here is raised."""

from enum import StrEnum

import msgspec

from scheduler_service.domain.execution import ExecutionState


class Reply(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The root of all replies."""


class Taken(Reply, frozen=True):
    """Done as asked."""


class Unchanged(Reply, frozen=True):
    """It was so already; nothing was done."""


class Started(Reply, frozen=True):
    """A trigger was accepted: the execution and the state in which the turn left it."""

    execute_number: int
    state: ExecutionState
    uid: str = ""


class Reactivated(Reply, frozen=True):
    """The job fires again; `missed` firings fell into the pause (at most 10,000)."""

    missed: int


class Recalled(Reply, frozen=True):
    """Done before under this Idempotency-Key: `answer` is what was answered then.

    `same_digest` False: the key came with another body, and nothing was done.
    """

    answer: bytes
    same_digest: bool


class RefusalCode(StrEnum):
    """Why an event had no effect."""

    ABSENT = "absent"  # no such job, or no such execution
    CONFLICT = "conflict"  # another definition, or the execution has ended
    PRECONDITION = "precondition"  # the revision is not the one that was asked for
    FORBIDDEN = "forbidden"  # a feedback token that does not fit
    STALE = "stale"  # feedback for an attempt that does not wait for it
    INVALID = "invalid"  # a report that is none
    LIMIT = "limit"  # too many triggers wait


class Refusal(Reply, frozen=True):
    """Nothing was done (a stale feedback is recorded); `message` names the thing and the remedy."""

    code: RefusalCode
    message: str
    pointer: str = ""
