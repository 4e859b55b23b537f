"""The routes under `/main`."""

from http import HTTPStatus

from client_sdk.models import answers
from scheduler_service.api import executions, legacy_main
from scheduler_service.api.parameters import flag, integer, text
from scheduler_service.api.request import Operation, group
from scheduler_service.api.routes.executions import EXECUTION_FILTERS
from scheduler_service.security.callers import Role

NOT_FOUND = HTTPStatus.NOT_FOUND

LEGACY_MAIN = group(
    "main",
    Operation(
        route="DELETE /main/schedule/clean",
        handler=legacy_main.clean,
        role=Role.EDITOR,
        name="cleanHistory",
        summary="Remove the history of destroyed jobs and old executions",
        query=(
            flag("cleanDestroyJob", "Whether destroyed jobs go altogether.", default=True),
            integer("retainExecutionCount", "How many executions each living job keeps.", default=10),
        ),
        data=answers.Cleaned,
    ),
    Operation(
        route="GET /main/execution",
        handler=executions.list_all,
        role=Role.VIEWER,
        name="listExecutionsBySourcePath",
        summary="List the executions of a job",
        query=(text("jobId", "The job.", required=True), *EXECUTION_FILTERS),
        data=answers.Listing[answers.Execution],
    ),
    Operation(
        route="GET /main/getChildJobLogs",
        handler=legacy_main.read_child_logs,
        role=Role.VIEWER,
        name="readChildLogs",
        summary="Read the newest execution of each child of an execution",
        query=(
            text("parentJobId", "The parent.", required=True),
            integer("execution", "Its executeNumber.", required=True),
        ),
        data=answers.Listing[answers.ExecutionInFull],
    ),
    Operation(
        route="GET /main/getChildJobLogsByExecutionId",
        handler=legacy_main.read_child_logs_of_execution,
        role=Role.VIEWER,
        name="readChildLogsByExecution",
        summary="The same by the execution's id",
        query=(text("executionId", "The parent's execution.", required=True),),
        data=answers.Listing[answers.ExecutionInFull],
        statuses=(NOT_FOUND,),
    ),
    Operation(
        route="DELETE /main/destroyByParentJob",
        handler=legacy_main.destroy_family,
        role=Role.EDITOR,
        name="destroyFamily",
        summary="Destroy a job and all that it started",
        query=(text("parentJobId", "The parent.", required=True),),
        data=answers.Family,
        statuses=(NOT_FOUND,),
    ),
)
