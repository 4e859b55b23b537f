"""How many there are of what a list would have (SPEC section 10)."""

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel
from client_sdk.models.answers.words import FailureType


class Total(AnswerModel):
    """How many; `is_capped`: at least so many, since no more were looked at."""

    value: int
    is_capped: bool


class JobThatCannotRun(AnswerModel):
    """A stored job that cannot run as settings are now, and why."""

    job_id: str
    problem: str


class JobCounts(AnswerModel):
    """Jobs by state, by kind of timer, and by what their newest execution came to.

    `cannot_run`: those of the service that cannot run as they stand, whatever was filtered; 20 are named.
    """

    total: Total
    cannot_run: int = 0
    cannot_run_jobs: list[JobThatCannotRun] = Field([])
    by_state: dict[str, int]
    by_kind: dict[str, int]
    by_last_outcome: dict[str, int]


class UpcomingCounts(AnswerModel):
    """Planned firings in buckets of `bucket_seconds` that follow each other from `from_` on.

    `total.is_capped`: of some jobs only the next firing is counted.
    """

    from_: AwareDatetime = Field(alias="from")
    to: AwareDatetime
    bucket_seconds: int
    total: Total
    counts: list[int]


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


class QueueCounts(AnswerModel):
    """Parts of steps in all queues: how many wait, since when the oldest of them does, how many are held."""

    queues: Total
    waiting: int
    held: int
    oldest_at: AwareDatetime | None


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
