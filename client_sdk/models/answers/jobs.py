"""Jobs, and the answers to changes of them (SPEC section 10)."""

from typing import Any

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import (
    AnswerModel,
    ExecutionState,
    ItemStatus,
    JobState,
    OperationAction,
    OperationKind,
    OperationState,
    OptionSource,
    ProblemDetails,
    ProblemError,
    TimerKind,
    Total,
)

__all__ = [
    "Backfill", "BackfilledMoment", "Bulk", "ComparedDefinition", "ComparedDefinitions", "Destroyed",
    "Family", "ItemResult", "Job", "JobCounts",
    "JobLine", "JobThatCannotRun", "JobTimer", "LatestExecution", "LeftMoment", "Operation",
    "OperationProblem", "Option", "Results", "RevisionLine", "StartedExecution", "Trial", "Triggered",
]  # fmt: skip


class Option(AnswerModel):
    """An effective value and where it comes from."""

    value: Any
    source: OptionSource


class LatestExecution(AnswerModel):
    """The newest execution of a job."""

    execution_id: str
    execute_number: int
    state: ExecutionState
    error: str | None


class JobTimer(AnswerModel):
    """A job's timer in words; `period` as it was posted."""

    kind: TimerKind
    period: str | None
    timezone: str
    description: str


class JobLine(AnswerModel):
    """A job in a list; `timer` and `definition` where they were asked for, and that has 64 KiB at most.

    `disabled` comes with either of them; None: it was not read. `cannot_run`: why the job cannot run as
    settings are since the last start.
    """

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
    cannot_run: str | None = None
    disabled: bool | None = None
    timer: JobTimer | None = None
    definition: dict[str, Any] | None = None


class Job(JobLine):
    """A job with its definition as posted; `missed` answers its activation alone.

    `pause_reason`: `paused`, `gone` (its target no longer knows it), `failures` (`pauseAfterFailures`) or
    `undeclared` (its service does not declare it any more); None: it is not paused.
    """

    pause_reason: str | None = None
    disabled: bool = False
    definition: dict[str, Any]
    options: dict[str, Option]
    missed: int | None = None


class Destroyed(AnswerModel):
    """A destroyed job."""

    job_id: str
    state: JobState


class Triggered(AnswerModel):
    """The execution that a trigger or a replay made."""

    execution_id: str
    execute_number: int
    state: ExecutionState


class BackfilledMoment(AnswerModel):
    """A moment that is run, and its execution; none yet where it is only shown."""

    planned_at: AwareDatetime
    execution_id: str | None
    execute_number: int | None


class LeftMoment(AnswerModel):
    """A moment that is not run, and the execution for which it is left out."""

    planned_at: AwareDatetime
    execution_id: str
    execute_number: int
    state: ExecutionState


class Backfill(AnswerModel):
    """The moments of a range, those that are run and the others, in order."""

    items: list[BackfilledMoment]
    left: list[LeftMoment]


class Trial(Triggered):
    """The one execution of a definition that is tried, in a job that the service destroys by itself."""

    job_id: str


class ItemResult(AnswerModel):
    """The result of one definition of many."""

    job_id: str | None
    status: ItemStatus
    problem: ProblemDetails | None
    warnings: list[ProblemError]


class Results(AnswerModel):
    """One result per definition, in order."""

    items: list[ItemResult]


class ComparedDefinition(ItemResult):
    """What applying one definition would do to its job, which is at `revision`; None: there is no job."""

    revision: int | None = None


class ComparedDefinitions(AnswerModel):
    """One result per definition, in order."""

    items: list[ComparedDefinition]


class Family(AnswerModel):
    """The jobs that were destroyed, children first."""

    jobs: list[str]


class RevisionLine(AnswerModel):
    """An earlier definition."""

    revision: int
    created_at: AwareDatetime
    definition: dict[str, Any]


class OperationProblem(AnswerModel):
    """A job or an execution that was refused, and why."""

    job_id: str | None
    execution_id: str | None
    problem: ProblemDetails


class StartedExecution(AnswerModel):
    """An execution that the operation started."""

    job_id: str
    execution_id: str


class Operation(AnswerModel):
    """A command on many things, and how far it is: `done` of `total`. `node` runs it, or ran it.

    `state` `interrupted`: the service ended, or its store was away, before all was done. The first 100
    problems and started executions are listed; `moreProblems` and `moreStarted` count the others. `warnings`:
    what was to be said of the choice, as that the history was behind.
    """

    operation_id: str
    kind: OperationKind
    action: OperationAction
    state: OperationState
    total: int
    done: int
    succeeded: int
    failed: int
    problems: list[OperationProblem]
    more_problems: int
    started: list[StartedExecution]
    more_started: int
    warnings: list[ProblemError] = Field([])
    created_by: str
    node: str
    started_at: AwareDatetime
    updated_at: AwareDatetime
    ended_at: AwareDatetime | None


class Bulk(AnswerModel):
    """How many jobs or executions are selected, the first 100 ids, and the operation; null in a dry run."""

    dry_run: bool
    count: int
    first: list[str]
    operation: Operation | None


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
