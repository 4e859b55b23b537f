"""Firings, timers and previews (SPEC sections 3, 4, 6)."""

import datetime
from typing import Any

from pydantic import AwareDatetime, Field, RootModel

from client_sdk.models.answers.form import (
    AnswerModel,
    DayNote,
    ExecutionState,
    FiringOutcome,
    ProblemDetails,
    RetryJitter,
    RetryReason,
    TimerKind,
    Total,
)

__all__ = [
    "CheckOrProblem", "CheckedDefinition", "ExistingJob", "FiringLine", "Outlook", "OutlookDay",
    "OutlookHour", "OutlookOrProblem", "Planned", "PlannedRetry", "PolicyPlan", "Preview", "PreviewOrProblem",
    "PreviewedFiring", "RetryPlan", "SoftProblem", "TemplateValue", "UpcomingCounts", "ValueOrProblem",
]  # fmt: skip


class FiringLine(AnswerModel):
    """The outcome of a planned firing, or of a run of missed ones; `state` is that of its execution."""

    planned_at: AwareDatetime
    until: AwareDatetime | None
    count: int | None
    outcome: FiringOutcome
    reason: str | None
    execution_id: str | None
    state: ExecutionState | None = None


class Planned(AnswerModel):
    """A firing that is planned."""

    job_id: str
    job_name: str
    kind: TimerKind
    planned_at: AwareDatetime


class PreviewedFiring(AnswerModel):
    """A future firing; `note` on a day on which clocks change."""

    utc: AwareDatetime
    local: str
    note: str | None


class Preview(AnswerModel):
    """A timer as text, and its next firings."""

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
    jitter: RetryJitter


class RetryPlan(AnswerModel):
    """The retries of an execution, and why there is no further one; `reason` null: there are more."""

    error: str
    items: list[PlannedRetry]
    reason: RetryReason | None


class TemplateValue(AnswerModel):
    """The value of a template."""

    value: Any


class PolicyPlan(AnswerModel):
    """The retries by one policy of an execution that fails with `error`, the first code it is for."""

    policy: int
    errors: list[str]
    error: str
    items: list[PlannedRetry]
    reason: RetryReason | None


class ExistingJob(AnswerModel):
    """The job that has this id now; `isSame`: with an equal definition."""

    revision: int
    is_same: bool


class CheckedDefinition(AnswerModel):
    """What a definition would do: its timer, its retries, and the job that it would meet."""

    job_id: str
    kind: TimerKind
    timer: Preview
    retry_plans: list[PolicyPlan]
    existing: ExistingJob | None


class SoftProblem(AnswerModel):
    """What is wrong, in an answer with the status 200 (`soft`)."""

    problem: ProblemDetails


class OutlookDay(AnswerModel):
    """A local day with its firings; `note` `gap` or `overlap`: clocks go forward or back that day."""

    date: datetime.date
    count: int
    first: AwareDatetime | None
    last: AwareDatetime | None
    note: DayNote | None
    note_text: str | None


class OutlookHour(AnswerModel):
    """An hour of the day from now on: firings of the timer, and of the jobs that are there."""

    from_: AwareDatetime = Field(alias="from")
    count: int
    others: int


class Outlook(AnswerModel):
    """What a timer does: per local day, per hour of the local day, and beside other jobs in the next day.

    `othersAreCapped`: of some jobs only the next firing is counted.
    """

    timezone: str
    total: int
    until: AwareDatetime
    days: list[OutlookDay]
    by_hour: list[int]
    next_day: list[OutlookHour]
    others_are_capped: bool


class OutlookOrProblem(RootModel[Outlook | SoftProblem]):
    """An outlook; with `soft` the problem, if there is one."""


class PreviewOrProblem(RootModel[Preview | SoftProblem]):
    """A preview; with `soft` the problem, if there is one."""


class ValueOrProblem(RootModel[TemplateValue | SoftProblem]):
    """The value of a template; with `soft` the problem, if there is one."""


class CheckOrProblem(RootModel[CheckedDefinition | SoftProblem]):
    """A checked definition; with `soft` the problem, if there is one."""


class UpcomingCounts(AnswerModel):
    """Planned firings in buckets of `bucket_seconds` that follow each other from `from_` on.

    `total.is_capped`: of some jobs only the next firing is counted.
    """

    from_: AwareDatetime = Field(alias="from")
    to: AwareDatetime
    bucket_seconds: int
    total: Total
    counts: list[int]
