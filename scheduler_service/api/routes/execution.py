"""The routes of executions and notifications."""

from http import HTTPStatus

from client_sdk.models import Cancellation, ReplayRequest, answers
from scheduler_service.api import (
    deliveries,
    examples,
    executions,
)
from scheduler_service.api.parameters import choice, label, moment, paging, text
from scheduler_service.api.queries import Parameter
from scheduler_service.api.request import Operation
from scheduler_service.domain.execution import DeliveryState, ExecutionState, TriggeredBy

NOT_FOUND, CONFLICT = HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT

EXECUTION_FILTERS: tuple[Parameter, ...] = (
    choice("state", "Only in this state.", ExecutionState),
    text("error", "Only with this error code.", example="500"),
    choice("triggeredBy", "Only those set off by this.", TriggeredBy),
    moment("from", "Planned at this moment or later."),
    moment("to", "Planned at this moment or earlier."),
    label(),
    *paging(),
)


EXECUTIONS: tuple[Operation, ...] = (
    Operation(
        name="listExecutions",
        method="GET",
        path="/executions",
        take=executions.list_all,
        summary="List executions",
        tag="executions",
        query=(text("jobId", "Only of this job."), *EXECUTION_FILTERS),
        data=answers.Listing[answers.Execution],
    ),
    Operation(
        name="listExecutionsOfJob",
        method="GET",
        path="/jobs/{jobId}/executions",
        take=executions.list_of_job,
        summary="List the executions of a job",
        tag="executions",
        query=EXECUTION_FILTERS,
        data=answers.Listing[answers.Execution],
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="readExecution",
        method="GET",
        path="/executions/{executionId}",
        take=executions.read,
        summary="Read an execution in full",
        tag="executions",
        data=answers.ExecutionInFull,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="readLog",
        method="GET",
        path="/executions/{executionId}/log",
        take=executions.read_log,
        summary="Read the log of an execution",
        tag="executions",
        query=paging(),
        data=answers.Listing[answers.LogLine],
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="cancelExecution",
        method="POST",
        path="/executions/{executionId}/cancel",
        take=executions.cancel,
        summary="Cancel an execution that has not ended",
        tag="executions",
        body=Cancellation,
        body_example={"reason": "wrong day"},
        data=answers.Held,
        statuses=(NOT_FOUND, CONFLICT),
    ),
    Operation(
        name="replayExecution",
        method="POST",
        path="/executions/{executionId}/replay",
        take=executions.replay,
        summary="Run an execution again, from the start or from a step",
        tag="executions",
        body=ReplayRequest,
        body_example=examples.REPLAY,
        data=answers.Triggered,
        statuses=(NOT_FOUND, CONFLICT),
    ),
    Operation(
        name="releaseExecution",
        method="POST",
        path="/executions/{executionId}/release",
        take=executions.release,
        summary="Let an execution go that a debug switch holds",
        tag="executions",
        body=dict,
        data=answers.Held,
        statuses=(NOT_FOUND, CONFLICT),
    ),
)

DELIVERIES: tuple[Operation, ...] = (
    Operation(
        name="listDeliveries",
        method="GET",
        path="/deliveries",
        take=deliveries.list_all,
        summary="List notifications",
        tag="deliveries",
        query=(
            text("jobId", "Only of this job."),
            choice("state", "Only in this state.", DeliveryState),
            text("event", "Only of this event.", example="finalFailed"),
            *paging(),
        ),
        data=answers.Listing[answers.DeliveryLine],
    ),
    *(
        Operation(
            name=f"{verb}Delivery",
            method="POST",
            path=f"/deliveries/{{deliveryId}}/{verb}",
            take=take,
            summary=summary,
            tag="deliveries",
            body=dict,
            data=answers.DeliveryRef,
            statuses=(NOT_FOUND, CONFLICT),
        )
        for verb, take, summary in (
            ("resend", deliveries.resend, "Try a notification again now"),
            ("dismiss", deliveries.dismiss, "Give a notification up"),
        )
    ),
)
