"""The routes of executions."""

from client_sdk.models import Cancellation, ReplayRequest, answers
from scheduler_service.api import examples, executions
from scheduler_service.api.filters import EXECUTION_FILTERS
from scheduler_service.api.large_answers import AnswerLine
from scheduler_service.api.parameters import integer, paging, text
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

EXECUTIONS = group(
    "executions",
    Operation(
        route="GET /executions",
        handler=executions.list_executions,
        role=Role.VIEWER,
        summary="List executions",
        query=(text("jobId", "Only of this job."), *EXECUTION_FILTERS, *paging()),
        data=answers.Listing[answers.Execution],
    ),
    Operation(
        route="GET /jobs/{jobId}/executions",
        handler=executions.list_executions_of_job,
        role=Role.VIEWER,
        summary="List the executions of a job",
        query=(*EXECUTION_FILTERS, *paging()),
        data=answers.Listing[answers.Execution],
        statuses=(404,),
    ),
    Operation(
        route="GET /executions/{executionId}",
        handler=executions.read_execution,
        role=Role.VIEWER,
        summary="Read an execution in full",
        query=(integer("requestCounts", "Only this attempt, and the notifications about it."),),
        data=answers.ExecutionInFull,
        statuses=(404,),
        answer_line=AnswerLine.HISTORY,
    ),
    Operation(
        route="GET /executions/{executionId}/log",
        handler=executions.read_log,
        role=Role.VIEWER,
        summary="Read the log of an execution",
        query=paging(),
        data=answers.Listing[answers.LogLine],
        statuses=(404,),
        answer_line=AnswerLine.HISTORY,
    ),
    Operation(
        route="POST /executions/{executionId}/cancel",
        handler=executions.cancel_execution,
        role=Role.OPERATOR,
        summary="Cancel an execution that has not ended",
        body=Body(Cancellation, {"reason": "wrong day"}),
        data=answers.Held,
        statuses=(404, 409),
    ),
    Operation(
        route="POST /executions/{executionId}/replay",
        handler=executions.replay_execution,
        role=Role.OPERATOR,
        summary="Run an execution again, from the start or from a step",
        body=Body(ReplayRequest, examples.REPLAY),
        data=answers.Triggered,
        statuses=(404, 409),
    ),
    Operation(
        route="POST /executions/{executionId}/release",
        handler=executions.release_execution,
        role=Role.OPERATOR,
        summary="Run an execution that a debug switch holds",
        body=Body(dict),
        data=answers.Held,
        statuses=(404, 409),
    ),
)
