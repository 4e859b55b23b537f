"""What is counted of executions by day (SPEC sections 10, 12)."""

from datetime import date

from pydantic import Field

from client_sdk.models.answers.form import AnswerModel


class Spread(AnswerModel):
    """Durations in ms, null where there are none; but `mean` each is wrong by an eighth at most."""

    p50: int | None = None
    p90: int | None = None
    p95: int | None = None
    p99: int | None = None
    max: int | None = None
    mean: int | None = None


class Figures(AnswerModel):
    """Executions that have ended; `lateness` is that of the timer's, `duration` from start to end."""

    executions: int
    by_outcome: dict[str, int]
    by_failure_type: dict[str, int] = Field({})
    attempts: int
    lateness: Spread
    duration: Spread


class DayFigures(Figures):
    """The executions planned on one day (UTC)."""

    day: date


class Daily(AnswerModel):
    """The days from `from` to `to`, both included, that have executions, and their sum."""

    first: date = Field(alias="from")
    last: date = Field(alias="to")
    total: Figures
    days: list[DayFigures]


class JobStatistics(Daily):
    """The statistics of one job."""

    job_id: str


class FailingJob(AnswerModel):
    """A job with executions that failed for good, and their share of all that have ended."""

    job_id: str
    executions: int
    failed: int
    failed_share: float


class SlowJob(AnswerModel):
    """A job, and how long an execution of it takes on average."""

    job_id: str
    executions: int
    mean_ms: int


class DailyStatistics(Daily):
    """The statistics of several jobs: which of them failed most and took longest, at most ten each."""

    failing: list[FailingJob]
    slowest: list[SlowJob]
