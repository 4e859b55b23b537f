"""Executions and their notifications (SPEC section 10)."""

from base64 import b64decode
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import (
    AnswerModel,
    ExecutionState,
    FailureType,
    KeptDetail,
    Total,
    TriggeredBy,
)

__all__ = [
    "ActLine", "Attempt", "DeliveryCounts", "DeliveryLine", "DeliveryRef", "DurationSpread", "ErrorCount",
    "Execution",
    "ExecutionCounts", "ExecutionInFull", "Held", "JobOutcomes", "LatenessSpread", "LeaseLine", "LogLine",
    "Message", "Outcome", "Outcomes", "QueuedParts", "Result", "ResultInBrief", "Series",
    "SeriesBucket", "StepRun", "Told",
]  # fmt: skip


class Held(AnswerModel):
    """The execution that was cancelled or released."""

    execution_id: str
    execute_number: int
    state: ExecutionState | None = None


class Execution(AnswerModel):
    """An execution in a list. `message` is that of the failure, at most 200 characters of it.

    `triggered_by_name`: the key or user who triggered it; None for a timer's.
    """

    execution_id: str
    job_id: str
    execute_number: int
    revision: int
    state: ExecutionState
    reason: str | None
    error: str | None
    failure_type: FailureType | None
    message: str | None = None
    triggered_by: TriggeredBy
    triggered_by_name: str | None = None
    planned_at: AwareDatetime
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    lateness_ms: int | None
    attempt_count: int
    progress: str | None
    progress_fraction: float | None = Field(ge=0, le=1)


class Outcome(AnswerModel):
    """An execution in brief, also one that has not ended; `duration_ms` is from its start to its end."""

    execution_id: str
    execute_number: int
    state: ExecutionState
    error: str | None
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    duration_ms: int | None
    lateness_ms: int | None


class JobOutcomes(AnswerModel):
    """The latest executions of a job, the newest last; none where there is no such job."""

    job_id: str
    executions: list[Outcome]


class Outcomes(AnswerModel):
    """One item per job, in the order of the question."""

    items: list[JobOutcomes]


class Message(AnswerModel):
    """A request or response as the history keeps it, masked."""

    headers: dict[str, str]
    body: str | None
    truncated: bool
    encoding: str | None = None


class StepRun(AnswerModel):
    """One step of an attempt, or one `part` of it; `instance` is the one that was chosen, if any.

    `fault` is what failed on the way, as `timeout`; `error` the step's error code.
    """

    index: int
    part: int | None = None
    instance: str | None = None
    resp_env_name: str | None
    method: str
    url: str
    status: int | None
    fault: str | None = None
    error: str | None = None
    sent_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    duration_ms: int | None
    request: Message | None
    response: Message | None


class LeaseLine(AnswerModel):
    """A part of a step in a queue was `claimed` by `instance`, `lost` by it, or `withdrawn` from it."""

    step: int
    part: int | None = None
    instance: str
    what: str
    at: AwareDatetime


class QueuedParts(AnswerModel):
    """What an attempt has in the queue `name`: so many of `parts` are `unclaimed`, `claimed`, `ended`."""

    step: int
    name: str
    parts: int
    unclaimed: int
    claimed: int
    ended: int


class Attempt(AnswerModel):
    """One run through the chain. `queue`: None where no step of it is in a queue now.

    `retry_in_ms`: how long after its end the next one was to begin; None: no retry.
    """

    request_counts: int
    reason: str | None = None
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    error: str | None
    failure_type: FailureType | None = None
    message: str | None = None
    retry_in_ms: int | None = None
    steps: list[StepRun]
    checks: list[dict[str, Any]]
    feedback: list[dict[str, Any]]
    leases: list[LeaseLine] = Field([])
    queue: QueuedParts | None = None


class Told(AnswerModel):
    """A notification and its tries; `next_try_at` None: no try is planned.

    `request` and `response` are those of the last try; None where there was none, or no answer came.
    """

    delivery_id: str
    name: str | None = None
    event: str
    url: str
    state: str
    created_at: AwareDatetime | None = None
    attempts: list[dict[str, Any]]
    next_try_at: AwareDatetime | None = None
    request: Message | None = None
    response: Message | None = None


class ActLine(AnswerModel):
    """Who triggered, replayed, cancelled or released an execution: `via` is `api` or `system`."""

    operation: str
    who: str
    key_id: str | None
    via: str
    at: AwareDatetime


class ResultInBrief(AnswerModel):
    """What is said of a result; `status` None: it was reported by feedback. `masked`: not all is shown."""

    status: int | None
    content_type: str | None
    truncated: bool
    masked: bool
    bytes: int = 0


class Result(AnswerModel):
    """What an execution was answered last: `body` is JSON, a text, or base64, as `encoding` says.

    `status` None: it was reported by feedback. `truncated`: it was longer than `limits.response_bytes`.
    """

    execution_id: str
    status: int | None
    content_type: str | None
    encoding: Literal["json", "text", "base64"]
    body: Any
    truncated: bool
    masked: bool

    @property
    def value(self) -> Any:
        """The JSON value, the text, or the bytes."""
        return b64decode(self.body) if self.encoding == "base64" else self.body


class ExecutionInFull(Execution):
    """An execution with its history. `params` are incomplete if masked, truncated or not kept.

    `result` None: none is kept (`keepResult`).

    `trace_id` is that of OpenTelemetry; None: it has not begun, or its first call has not ended yet.
    `detail`: `brief` where `historyDetail` keeps less than all; `dropped` where the history has removed some;
    `partial` where this answer leaves out older attempts, notifications or bodies.
    """

    trace_id: str | None = None
    detail: KeptDetail = "kept"
    params: Any
    params_complete: bool
    result: ResultInBrief | None = None
    attempts: list[Attempt]
    notifications: list[Told]
    acts: list[ActLine] = Field([])


class LogLine(AnswerModel):
    """A line of an execution's log."""

    at: AwareDatetime
    kind: str
    request_counts: int | None
    step: int | None
    text: str


class DeliveryLine(Told):
    """A notification in a list."""

    job_id: str
    execution_id: str
    request_counts: int | None = None


class DeliveryRef(AnswerModel):
    """The requested delivery."""

    delivery_id: str


class ErrorCount(AnswerModel):
    """Executions with one error: how many of how many jobs, and the latest by its planned moment."""

    error: str
    failure_type: FailureType | None
    count: int
    jobs: int
    latest_execution_id: str
    latest_at: AwareDatetime


class ExecutionCounts(AnswerModel):
    """Executions by state and by error, the most frequent error first."""

    total: Total
    by_state: dict[str, int]
    by_error: list[ErrorCount]


class DeliveryCounts(AnswerModel):
    """Notifications by state: `outbox` and `failed` are those that wait for somebody."""

    total: Total
    by_state: dict[str, int]


class LatenessSpread(AnswerModel):
    """How late executions of timers were, in ms; null where there are none."""

    p50: int | None
    p99: int | None
    max: int | None


class DurationSpread(AnswerModel):
    """How long executions took, in ms; null where there are none."""

    p50: int | None
    p95: int | None
    max: int | None


class SeriesBucket(AnswerModel):
    """Executions that are planned from `from` on, up to the next bucket; states without any are left out."""

    start: AwareDatetime = Field(alias="from")
    by_state: dict[str, int]
    lateness_ms: LatenessSpread
    duration_ms: DurationSpread


class Series(AnswerModel):
    """Buckets of one width, the oldest first, empty ones too.

    `is_capped`: only what was planned from `examined_from` on was looked at.
    """

    first: AwareDatetime = Field(alias="from")
    last: AwareDatetime = Field(alias="to")
    bucket_seconds: int
    is_capped: bool
    examined_from: AwareDatetime | None
    buckets: list[SeriesBucket]
