"""The routes under `/main`, and those about the service itself."""

from http import HTTPStatus

from client_sdk.models import answers
from scheduler_service.api import (
    executions,
    families,
    operation,
)
from scheduler_service.api.call import Operation
from scheduler_service.api.parameters import flag, integer, text
from scheduler_service.api.routes.execution import EXECUTION_FILTERS

NOT_FOUND = HTTPStatus.NOT_FOUND

FAMILIES: tuple[Operation, ...] = (
    Operation(
        name="cleanHistory",
        method="DELETE",
        path="/main/schedule/clean",
        take=families.clean,
        summary="Remove the history of destroyed jobs and old executions",
        tag="main",
        query=(
            flag("cleanDestroyJob", "Whether destroyed jobs go altogether.", default=True),
            integer("retainExecutionCount", "How many executions each living job keeps.", default=10),
        ),
        data=answers.Cleaned,
    ),
    Operation(
        name="listExecutionsBySourcePath",
        method="GET",
        path="/main/execution",
        take=executions.list_all,
        summary="List the executions of a job",
        tag="main",
        query=(text("jobId", "The job.", required=True), *EXECUTION_FILTERS),
        data=answers.Listing[answers.Execution],
    ),
    Operation(
        name="readChildLogs",
        method="GET",
        path="/main/getChildJobLogs",
        take=families.read_child_logs,
        summary="Read the newest execution of each child of an execution",
        tag="main",
        query=(
            text("parentJobId", "The parent.", required=True),
            integer("execution", "Its executeNumber.", required=True),
        ),
        data=answers.Listing[answers.ExecutionInFull],
    ),
    Operation(
        name="readChildLogsByExecution",
        method="GET",
        path="/main/getChildJobLogsByExecutionId",
        take=families.read_child_logs_of_execution,
        summary="The same by the execution's id",
        tag="main",
        query=(text("executionId", "The parent's execution.", required=True),),
        data=answers.Listing[answers.ExecutionInFull],
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="destroyFamily",
        method="DELETE",
        path="/main/destroyByParentJob",
        take=families.destroy_family,
        summary="Destroy a job and all that it started",
        tag="main",
        query=(text("parentJobId", "The parent.", required=True),),
        data=answers.Family,
        statuses=(NOT_FOUND,),
    ),
)

SERVICE: tuple[Operation, ...] = (
    Operation(
        name="showStatistics",
        method="GET",
        path="/stats",
        take=operation.show_stats,
        summary="Show how much is due, running and late",
        tag="operation",
        data=answers.Statistics,
    ),
    Operation(
        name="listNodes",
        statuses=(NOT_FOUND,),
        method="GET",
        path="/nodes",
        take=operation.list_nodes,
        summary="List the scheduler processes",
        tag="operation",
        data=answers.Listing[answers.Node],
    ),
    Operation(
        name="showSettings",
        statuses=(NOT_FOUND,),
        method="GET",
        path="/settings",
        take=operation.show_settings,
        summary="Show each effective setting and where it comes from",
        tag="operation",
        data=dict,
    ),
    *(
        Operation(
            name=name,
            method="GET",
            path=path,
            take=take,
            summary=summary,
            tag="operation",
            data=answers.Health,
            is_open=True,
        )
        for name, path, take, summary in (
            ("sayAlive", "/health/live", operation.say_alive, "Whether the process answers"),
            ("sayReady", "/health/ready", operation.say_ready, "Whether it takes work"),
        )
    ),
)
