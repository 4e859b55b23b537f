"""The routes of executions."""

from http import HTTPStatus

from client_sdk.models import Cancellation, ReplayRequest, answers
from scheduler_service.api import examples, executions
from scheduler_service.api.parameters import Parameter, choice, label, moment, paging, text
from scheduler_service.api.request import Operation, group
from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.security.callers import Role

NOT_FOUND = HTTPStatus.NOT_FOUND
CONFLICT = HTTPStatus.CONFLICT
EXECUTION_FILTERS: tuple[Parameter, ...] = (
    choice("state", "Only in this state.", ExecutionState),
    text("error", "Only with this error code.", example="500"),
    choice("triggeredBy", "Only those set off by this.", TriggeredBy),
    moment("from", "Planned at this moment or later."),
    moment("to", "Planned at this moment or earlier."),
    label(),
    *paging(),
)

EXECUTIONS = group(
    "executions",
    Operation(
        route="GET /executions",
        handler=executions.list_all,
        role=Role.VIEWER,
        name="listExecutions",
        summary="List executions",
        query=(text("jobId", "Only of this job."), *EXECUTION_FILTERS),
        data=answers.Listing[answers.Execution],
    ),
    Operation(
        route="GET /jobs/{jobId}/executions",
        handler=executions.list_of_job,
        role=Role.VIEWER,
        name="listExecutionsOfJob",
        summary="List the executions of a job",
        query=EXECUTION_FILTERS,
        data=answers.Listing[answers.Execution],
        statuses=(NOT_FOUND,),
    ),
    Operation(
        route="GET /executions/{executionId}",
        handler=executions.read,
        role=Role.VIEWER,
        name="readExecution",
        summary="Read an execution in full",
        data=answers.ExecutionInFull,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        route="GET /executions/{executionId}/log",
        handler=executions.read_log,
        role=Role.VIEWER,
        name="readLog",
        summary="Read the log of an execution",
        query=paging(),
        data=answers.Listing[answers.LogLine],
        statuses=(NOT_FOUND,),
    ),
    Operation(
        route="POST /executions/{executionId}/cancel",
        handler=executions.cancel,
        role=Role.OPERATOR,
        name="cancelExecution",
        summary="Cancel an execution that has not ended",
        body=Cancellation,
        body_example={"reason": "wrong day"},
        data=answers.Held,
        statuses=(NOT_FOUND, CONFLICT),
    ),
    Operation(
        route="POST /executions/{executionId}/replay",
        handler=executions.replay,
        role=Role.OPERATOR,
        name="replayExecution",
        summary="Run an execution again, from the start or from a step",
        body=ReplayRequest,
        body_example=examples.REPLAY,
        data=answers.Triggered,
        statuses=(NOT_FOUND, CONFLICT),
    ),
    Operation(
        route="POST /executions/{executionId}/release",
        handler=executions.release,
        role=Role.OPERATOR,
        name="releaseExecution",
        summary="Let an execution go that a debug switch holds",
        body=dict,
        data=answers.Held,
        statuses=(NOT_FOUND, CONFLICT),
    ),
)
