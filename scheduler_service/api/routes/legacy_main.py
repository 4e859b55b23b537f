"""The routes under `/main`."""

from client_sdk.models import answers
from scheduler_service.api import executions, legacy_main
from scheduler_service.api.filters import EXECUTION_FILTERS
from scheduler_service.api.large_answers import AnswerLine
from scheduler_service.api.parameters import flag, integer, paging, text
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

LEGACY_MAIN = group(
    "main",
    Operation(
        route="DELETE /main/schedule/clean",
        handler=legacy_main.clean_history,
        role=Role.EDITOR,
        summary="Remove the history of destroyed jobs and old executions",
        query=(
            flag("cleanDestroyJob", "Whether destroyed jobs are removed altogether.", default=True),
            integer("retainExecutionCount", "How many executions each living job keeps.", default=10),
        ),
        data=answers.Cleaned,
    ),
    Operation(
        route="GET /main/execution",
        handler=executions.list_executions,
        role=Role.VIEWER,
        name="listExecutionsBySourcePath",
        summary="List the executions of a job",
        query=(text("jobId", "The job.", required=True), *EXECUTION_FILTERS, *paging()),
        data=answers.Listing[answers.Execution],
    ),
    Operation(
        route="GET /main/getChildJobLogs",
        handler=legacy_main.read_child_logs,
        role=Role.VIEWER,
        summary="Read the newest execution of each child of an execution",
        query=(
            text("parentJobId", "The parent.", required=True),
            integer("execution", "Its executeNumber.", required=True),
            *paging(default=legacy_main.PAGE),
        ),
        data=answers.Listing[answers.ExecutionInFull],
        answer_line=AnswerLine.HISTORY,
    ),
    Operation(
        route="GET /main/getChildJobLogsByExecutionId",
        handler=legacy_main.read_child_logs_by_execution,
        role=Role.VIEWER,
        summary="Read them by the id of the parent's execution",
        query=(
            text("executionId", "The parent's execution.", required=True),
            *paging(default=legacy_main.PAGE),
        ),
        data=answers.Listing[answers.ExecutionInFull],
        statuses=(404,),
        answer_line=AnswerLine.HISTORY,
    ),
    Operation(
        route="DELETE /main/destroyByParentJob",
        handler=legacy_main.destroy_family,
        role=Role.EDITOR,
        summary="Destroy a job and all that it started",
        query=(text("parentJobId", "The parent.", required=True),),
        data=answers.Family,
        statuses=(404,),
    ),
)
