"""The form that all answers have in common, and their enumerated strings (SPEC section 10)."""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel

from client_sdk.models.fields import JitterKind

__all__ = [
    "AnswerModel", "DayNote", "DriftKind", "EventKind", "ExecutionState", "FailureType", "FiringOutcome",
    "HealthStatus", "InstanceState", "ItemStatus", "JobState", "KeptDetail", "Listing", "OperationAction",
    "OperationKind", "OperationState", "OptionSource", "ProblemDetails", "ProblemError", "RetryJitter",
    "RetryReason", "TimerKind", "Total", "TriggeredBy",
]  # fmt: skip

Item = TypeVar("Item")


class AnswerModel(BaseModel):
    """The root of all answers: camelCase; unknown members of later versions are kept."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True, extra="allow"
    )


class ProblemError(AnswerModel):
    """One error or warning: its place (RFC 6901), its code, and a message."""

    pointer: str
    code: str
    message: str


class ReachedLimit(AnswerModel):
    """The limit of the tenant for which a call is 429: its setting in the group `limits`, and its value."""

    name: str
    value: int


class ProblemDetails(AnswerModel):
    """The answer to every failed call (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemError]
    resp_code: int = Field(alias="resp_code")
    resp_msg: str = Field(alias="resp_msg")
    limit: ReachedLimit | None = None


class Listing(AnswerModel, Generic[Item]):
    """A slice of a list; `nextCursor` null: it ends here."""

    items: list[Item]
    next_cursor: str | None


def _keep_unknown(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Keeps an unknown string of a later version, so that an older caller still works."""
    try:
        return check(value)
    except ValidationError:
        if isinstance(value, str):
            return value
        raise


_OPEN = WrapValidator(_keep_unknown)

JobState = Annotated[Literal["active", "paused", "finished", "destroyed"], _OPEN]
TimerKind = Annotated[Literal["one_time", "timing", "cron", "external"], _OPEN]
ExecutionState = Annotated[
    Literal[
        "scheduled", "enqueued", "processing", "failed", "succeeded", "terminated", "cancelled", "skipped"
    ],
    _OPEN,
]
FailureType = Annotated[
    Literal[
        "http",
        "timeout",
        "connect",
        "template",
        "check",
        "business",
        "no_instance",
        "egress",
        "too_large",
        "partial",
        "lost",
        "cancelled",
    ],
    _OPEN,
]
KeptDetail = Annotated[Literal["kept", "brief", "dropped", "partial"], _OPEN]
TriggeredBy = Annotated[Literal["timer", "manual", "replay", "trial", "backfill"], _OPEN]
OptionSource = Annotated[Literal["product", "platform", "tenant", "service", "job"], _OPEN]
ItemStatus = Annotated[Literal["created", "updated", "unchanged", "refused"], _OPEN]
FiringOutcome = Annotated[Literal["fired", "late", "skipped"], _OPEN]
RetryJitter = Annotated[JitterKind, _OPEN]
RetryReason = Annotated[Literal["limit", "policy_spent", "no_policy", "never_retried"], _OPEN]
HealthStatus = Annotated[Literal["live", "ready"], _OPEN]
InstanceState = Annotated[Literal["online", "draining", "offline"], _OPEN]
DriftKind = Annotated[
    Literal[
        "missing",
        "lost",
        "finished",
        "changed",
        "overridden",
        "kept",
        "paused",
        "started",
        "foreign",
        "removed",
        "expired",
    ],
    _OPEN,
]
EventKind = Annotated[
    Literal[
        "started",
        "attemptFailed",
        "finalSucceed",
        "finalFailed",
        "skipped",
        "misfired",
        "undeliverable",
        "delivered",
        "overdue",
        "failing",
        "recovered",
        "jobCreated",
        "jobUpdated",
        "jobPaused",
        "jobResumed",
        "jobFinished",
        "jobDestroyed",
        "instanceLost",
        "instanceBack",
        "nodeJoined",
        "nodeLeft",
        "nodeLost",
        "workerLost",
        "workerBack",
        "storeLost",
        "storeBack",
        "limitReached",
        "gap",
    ],
    _OPEN,
]
OperationKind = Annotated[Literal["jobs", "executions"], _OPEN]
OperationAction = Annotated[
    Literal["pause", "resume", "disable", "enable", "trigger", "destroy", "label", "replay", "cancel"], _OPEN
]
OperationState = Annotated[Literal["running", "done", "cancelled", "interrupted"], _OPEN]
DayNote = Annotated[Literal["gap", "overlap"], _OPEN]


class Total(AnswerModel):
    """How many; `is_capped`: at least so many, since no more were looked at."""

    value: int
    is_capped: bool
