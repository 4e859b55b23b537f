"""The replies of a turn to the sender of an event. They are values: none is raised."""

from enum import StrEnum

import msgspec

from scheduler_service.domain.execution import ExecutionState


class Reply(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The root of all replies."""


class Taken(Reply, frozen=True):
    """Done as asked."""


class Unchanged(Reply, frozen=True):
    """Nothing had to be done."""


class Started(Reply, frozen=True):
    """A trigger was accepted: its execution, and the state of that after the turn."""

    execute_number: int
    state: ExecutionState
    uid: str = ""


class StartedMany(Reply, frozen=True):
    """A backfill was accepted: its moments, whose executions have the numbers from `first` on."""

    first: int
    moments: tuple[int, ...]
    uid: str = ""


class Reactivated(Reply, frozen=True):
    """The job fires again; `missed` firings fell into the pause (at most 10,000)."""

    missed: int


class Recalled(Reply, frozen=True):
    """The Idempotency-Key was used before: `answer` is the answer that was given then.

    `same_digest` False: the key came with another body, and nothing was done.
    """

    answer: bytes
    same_digest: bool


class RefusalCode(StrEnum):
    """Why an event had no effect."""

    ABSENT = "absent"  # no such job, or no such execution
    CONFLICT = "conflict"  # another definition, or the execution has ended
    PRECONDITION = "precondition"  # the revision is not the expected one
    FORBIDDEN = "forbidden"  # a feedback token that does not fit
    STALE = "stale"  # feedback for an attempt that does not wait for it
    INVALID = "invalid"  # a report that cannot be read
    DISABLED = "disabled"  # nothing of the job runs
    LIMIT = "limit"  # too many triggers are pending


class ReachedLimit(msgspec.Struct, frozen=True):
    """A limit of the tenant: its setting without the group, its value, when to ask again (in ms; 0: never).

    `left`: so many more there may be; 0: it is reached.
    """

    name: str
    value: int
    retry_after: int
    left: int = 0


class Refusal(Reply, frozen=True):
    """Nothing was done (a stale feedback is recorded); `message` names the thing and the remedy.

    `retry_after`: when what is full may have room (in ms); 0: that is not known, or `limit` says it.
    """

    code: RefusalCode
    message: str
    pointer: str = ""
    limit: ReachedLimit | None = None
    retry_after: int = 0
