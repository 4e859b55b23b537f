"""The routes of pull queues."""

from http import HTTPStatus

from client_sdk.models import Claim, Completion, Renewal, answers
from scheduler_service.api import examples, queues
from scheduler_service.api.request import Operation

CONFLICT = HTTPStatus.CONFLICT

QUEUES: tuple[Operation, ...] = (
    Operation(
        name="claimWork",
        method="POST",
        path="/queues/{name}/claim",
        take=queues.claim,
        summary="Claim work, waiting for it",
        tag="queues",
        body=Claim,
        body_required=True,
        body_example=examples.CLAIM,
        data=answers.Claimed,
    ),
    Operation(
        name="renewLease",
        method="POST",
        path="/leases/{lease}/renew",
        take=queues.renew,
        summary="Say that the work goes on",
        tag="queues",
        body=Renewal,
        body_example=examples.RENEWAL,
        data=answers.Renewed,
        statuses=(CONFLICT,),
    ),
    Operation(
        name="completeWork",
        method="POST",
        path="/leases/{lease}/complete",
        take=queues.complete,
        summary="Say how the work ended",
        tag="queues",
        body=Completion,
        body_required=True,
        body_example=examples.COMPLETION,
        statuses=(CONFLICT,),
    ),
)
