"""The routes under `/main`, and those about the service itself."""

from http import HTTPStatus

from client_sdk.models import answers
from scheduler_service.api import executions, health, legacy_main
from scheduler_service.api.parameters import flag, integer, text
from scheduler_service.api.request import Operation
from scheduler_service.api.routes.execution import EXECUTION_FILTERS

NOT_FOUND = HTTPStatus.NOT_FOUND

FAMILIES: tuple[Operation, ...] = (
    Operation(
        name="cleanHistory",
        method="DELETE",
        path="/main/schedule/clean",
        take=legacy_main.clean,
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
        take=legacy_main.read_child_logs,
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
        take=legacy_main.read_child_logs_of_execution,
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
        take=legacy_main.destroy_family,
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
        take=health.show_stats,
        summary="Show how much is due, running and late",
        tag="operation",
        data=answers.Statistics,
    ),
    Operation(
        name="listNodes",
        statuses=(NOT_FOUND,),
        method="GET",
        path="/nodes",
        take=health.list_nodes,
        summary="List the scheduler processes",
        tag="operation",
        data=answers.Listing[answers.Node],
    ),
    Operation(
        name="showSettings",
        statuses=(NOT_FOUND,),
        method="GET",
        path="/settings",
        take=health.show_settings,
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
            ("sayAlive", "/health/live", health.say_alive, "Whether the process answers"),
            ("sayReady", "/health/ready", health.say_ready, "Whether it takes work"),
        )
    ),
)
