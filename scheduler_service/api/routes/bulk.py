"""The routes of commands for many jobs or executions, and of their progress.

They are not below `/jobs`: a job of any id stays reachable there.
"""

from client_sdk.models import BulkExecutions, BulkJobs, answers
from scheduler_service.api import bulk, examples
from scheduler_service.api.large_answers import AnswerLine
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

BULK = group(
    "bulk",
    Operation(
        route="POST /bulk/jobs",
        handler=bulk.change_many_jobs,
        role=Role.OPERATOR,
        summary="Pause, resume, disable, enable, trigger, label or destroy many jobs",
        body=Body(BulkJobs, examples.BULK_JOBS, required=True),
        data=answers.Bulk,
        success=(200, 202),
        statuses=(429,),
    ),
    Operation(
        route="POST /bulk/executions",
        handler=bulk.change_many_executions,
        role=Role.OPERATOR,
        summary="Cancel or replay many executions",
        body=Body(BulkExecutions, examples.BULK_EXECUTIONS, required=True),
        data=answers.Bulk,
        success=(200, 202),
        statuses=(429,),
    ),
    Operation(
        route="GET /operations/{operationId}",
        handler=bulk.read_operation,
        role=Role.VIEWER,
        summary="Show how far an operation is",
        data=answers.Operation,
        statuses=(404,),
        answer_line=AnswerLine.STATE,
    ),
    Operation(
        route="POST /operations/{operationId}/cancel",
        handler=bulk.cancel_operation,
        role=Role.OPERATOR,
        summary="End an operation before it is done",
        body=Body(dict),
        data=answers.Operation,
        statuses=(404,),
    ),
)
