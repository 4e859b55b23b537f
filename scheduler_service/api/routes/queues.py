"""The routes of pull queues."""

from http import HTTPStatus

from client_sdk.models import Claim, Completion, Renewal, answers
from scheduler_service.api import examples, queues
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

CONFLICT = HTTPStatus.CONFLICT

QUEUES = group(
    "queues",
    Operation(
        route="POST /queues/{name}/claim",
        handler=queues.claim,
        role=Role.OPERATOR,
        name="claimWork",
        summary="Claim work, waiting for it",
        body=Claim,
        body_required=True,
        body_example=examples.CLAIM,
        data=answers.Claimed,
        is_busy=True,
    ),
    Operation(
        route="POST /leases/{lease}/renew",
        handler=queues.renew,
        role=Role.OPERATOR,
        name="renewLease",
        summary="Say that the work goes on",
        body=Renewal,
        body_example=examples.RENEWAL,
        data=answers.Renewed,
        statuses=(CONFLICT,),
        is_busy=True,
    ),
    Operation(
        route="POST /leases/{lease}/complete",
        handler=queues.complete,
        role=Role.OPERATOR,
        name="completeWork",
        summary="Say how the work ended",
        body=Completion,
        body_required=True,
        body_example=examples.COMPLETION,
        statuses=(CONFLICT,),
        is_busy=True,
    ),
)
