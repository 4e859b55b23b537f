"""The routes of pull queues."""

from client_sdk.models import Claim, Completion, Renewal, answers
from scheduler_service.api import examples, queues
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

QUEUES = group(
    "queues",
    Operation(
        route="POST /queues/{name}/claim",
        handler=queues.claim_work,
        role=Role.OPERATOR,
        summary="Claim work, waiting for it",
        body=Body(Claim, examples.CLAIM, required=True),
        data=answers.Claimed,
        is_busy=True,
    ),
    Operation(
        route="POST /leases/{lease}/renew",
        handler=queues.renew_lease,
        role=Role.OPERATOR,
        summary="Renew the lease of claimed work",
        body=Body(Renewal, examples.RENEWAL),
        data=answers.Renewed,
        statuses=(409,),
        is_busy=True,
    ),
    Operation(
        route="POST /leases/{lease}/complete",
        handler=queues.complete_work,
        role=Role.OPERATOR,
        summary="Complete claimed work",
        body=Body(Completion, examples.COMPLETION, required=True),
        statuses=(409,),
        is_busy=True,
    ),
)
