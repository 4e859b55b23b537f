"""Work on many jobs or executions: what it will do, its progress, its report (SPEC section 10)."""

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel, ProblemDetails, ProblemError
from client_sdk.models.answers.words import OperationAction, OperationKind, OperationState


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
