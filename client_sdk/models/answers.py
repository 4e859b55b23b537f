"""The members of `data` in the answers (SPEC section 10, the table of shapes), for readers and OpenAPI."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

JobState = Literal["active", "paused", "finished", "destroyed"]
TimerKind = Literal["one_time", "timing", "cron", "external"]
ExecutionState = Literal[
    "scheduled", "enqueued", "processing", "failed", "succeeded", "terminated", "cancelled", "skipped"
]
FailureType = Literal[
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
]
Item = TypeVar("Item")


class AnswerModel(BaseModel):
    """The root of all answers: camelCase; members that this version does not know are kept."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True, extra="allow"
    )


class ProblemError(AnswerModel):
    """One thing that is wrong, or worth a warning: where (RFC 6901), what, and in words."""

    pointer: str
    code: str
    message: str


class ProblemDetails(AnswerModel):
    """What every failure answers (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemError]
    resp_code: int = Field(alias="resp_code")
    resp_msg: str = Field(alias="resp_msg")


class Listing(AnswerModel, Generic[Item]):
    """A slice of a list; `nextCursor` null: it ends here."""

    items: list[Item]
    next_cursor: str | None


class Option(AnswerModel):
    """An effective value and where it comes from."""

    value: Any
    source: Literal["default", "tenant", "service", "job"]


class LatestExecution(AnswerModel):
    """The newest execution of a job."""

    execution_id: str
    execute_number: int
    state: ExecutionState
    error: str | None


class JobLine(AnswerModel):
    """A job in a list."""

    job_id: str
    uid: str
    object_id: str | None
    job_name: str
    creator: str
    labels: dict[str, str]
    parent_job: str | None
    parent_job_execution: int | None
    revision: int
    state: JobState
    kind: TimerKind
    next_fire_time: AwareDatetime | None
    execute_number: int
    request_counts: int
    latest_execution: LatestExecution | None
    missed_count: int
    created_at: AwareDatetime
    updated_at: AwareDatetime


class Job(JobLine):
    """A job with its definition as posted; `missed` answers its activation alone."""

    definition: dict[str, Any]
    options: dict[str, Option]
    missed: int | None = None


class Destroyed(AnswerModel):
    """A job that is gone."""

    job_id: str
    state: JobState


class Triggered(AnswerModel):
    """The execution that a trigger or a replay made."""

    execution_id: str
    execute_number: int
    state: ExecutionState


class Held(AnswerModel):
    """The execution that was cancelled or released."""

    execution_id: str
    execute_number: int
    state: ExecutionState | None = None


class ItemResult(AnswerModel):
    """What became of one definition of many."""

    job_id: str | None
    status: Literal["created", "updated", "unchanged", "refused"]
    problem: ProblemDetails | None
    warnings: list[ProblemError]


class Results(AnswerModel):
    """One result per definition, in order."""

    items: list[ItemResult]


class Execution(AnswerModel):
    """An execution in a list."""

    execution_id: str
    job_id: str
    execute_number: int
    revision: int
    state: ExecutionState
    reason: str | None
    error: str | None
    failure_type: FailureType | None
    triggered_by: Literal["timer", "manual", "replay"]
    planned_at: AwareDatetime
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    lateness_ms: int | None
    attempt_count: int
    progress: str | None
    progress_fraction: float | None = Field(ge=0, le=1)


class Message(AnswerModel):
    """A request or response as the history keeps it, masked."""

    headers: dict[str, str]
    body: str | None
    truncated: bool


class StepRun(AnswerModel):
    """One step of an attempt."""

    index: int
    resp_env_name: str | None
    method: str
    url: str
    status: int | None
    duration_ms: int | None
    request: Message | None
    response: Message | None


class Attempt(AnswerModel):
    """One run through the chain."""

    request_counts: int
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    error: str | None
    steps: list[StepRun]
    checks: list[dict[str, Any]]
    feedback: list[dict[str, Any]]


class Told(AnswerModel):
    """A notification and its tries."""

    event: str
    url: str
    state: str
    attempts: list[dict[str, Any]]


class ExecutionInFull(Execution):
    """An execution with all that happened in it. `params` are incomplete where masked, cut or not kept."""

    params: Any
    params_complete: bool
    attempts: list[Attempt]
    notifications: list[Told]


class LogLine(AnswerModel):
    """A line of an execution's log."""

    at: AwareDatetime
    kind: str
    request_counts: int | None
    step: int | None
    text: str


class FiringLine(AnswerModel):
    """What became of a planned firing, or of a run of missed ones."""

    planned_at: AwareDatetime
    until: AwareDatetime | None
    count: int | None
    outcome: Literal["fired", "late", "skipped"]
    reason: str | None
    execution_id: str | None


class RevisionLine(AnswerModel):
    """A definition as it was."""

    revision: int
    created_at: AwareDatetime
    definition: dict[str, Any]


class Planned(AnswerModel):
    """A firing that is planned."""

    job_id: str
    job_name: str
    kind: TimerKind
    planned_at: AwareDatetime


class PreviewedFiring(AnswerModel):
    """A coming firing; `note` on a day on which clocks change."""

    utc: AwareDatetime
    local: str
    note: str | None


class Preview(AnswerModel):
    """A timer in words and its coming firings."""

    kind: TimerKind
    dialect: str | None
    normal_form: str | None
    description: str
    firings: list[PreviewedFiring]


class PlannedRetry(AnswerModel):
    """A retry: by which policy, after which wait; `jitter` `full`: after 0 to that wait."""

    retry: int
    policy: int
    wait_ms: int
    after_ms: int
    jitter: Literal["none", "full"]


class RetryPlan(AnswerModel):
    """The retries of an execution, and why there is no further one; `reason` null: there are more."""

    error: str
    items: list[PlannedRetry]
    reason: Literal["limit", "policy_spent", "no_policy", "never_retried"] | None


class TemplateValue(AnswerModel):
    """What a template becomes."""

    value: Any


class DeliveryLine(Told):
    """A notification in a list."""

    delivery_id: str
    job_id: str
    execution_id: str


class DeliveryRef(AnswerModel):
    """The delivery that was asked for."""

    delivery_id: str


class Cleaned(AnswerModel):
    """How much was removed."""

    jobs: int
    executions: int
    notifications: int


class Family(AnswerModel):
    """The jobs that were destroyed, children first."""

    jobs: list[str]


class Statistics(AnswerModel):
    """The figures of the last hour and of this moment."""

    due: int
    waiting: int
    running: int
    by_state: dict[str, int]
    lateness: dict[str, Any]
    per_minute: list[dict[str, Any]]


class Health(AnswerModel):
    """How the process is."""

    status: Literal["live", "ready"]
    version: str
