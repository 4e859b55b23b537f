"""The routes of pull queues."""

from client_sdk.models import Claim, Completion, HeldPartName, Renewal, answers
from scheduler_service.api import examples, queues
from scheduler_service.api.large_answers import AnswerLine
from scheduler_service.api.parameters import paging
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

QUEUES = group(
    "queues",
    Operation(
        route="GET /queues",
        handler=queues.list_queues,
        role=Role.VIEWER,
        summary="List queues with how many parts wait and are held",
        query=paging(),
        data=answers.Listing[answers.QueueLine],
    ),
    Operation(
        route="GET /queues/{name}",
        handler=queues.read_queue_in_full,
        name="readQueue",
        role=Role.VIEWER,
        summary="Read a queue: its depth, and which instances hold its parts until when",
        query=paging(),
        data=answers.Queue,
        answer_line=AnswerLine.STATE,
    ),
    Operation(
        route="POST /queues/{name}/pause",
        handler=queues.pause_queue,
        role=Role.OPERATOR,
        summary="Pause a queue: nothing is claimed from it until it is resumed",
        data=answers.QueueLine,
    ),
    Operation(
        route="POST /queues/{name}/resume",
        handler=queues.resume_queue,
        role=Role.OPERATOR,
        summary="Resume a queue: what waits in it may be claimed again",
        data=answers.QueueLine,
    ),
    Operation(
        route="POST /queues/{name}/free",
        handler=queues.free_part,
        role=Role.OPERATOR,
        summary="Take a part from the instance that holds it, so that others may claim it",
        body=Body(HeldPartName, examples.FREEING, required=True),
        statuses=(409,),
    ),
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
