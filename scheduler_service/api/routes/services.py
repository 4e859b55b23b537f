"""The routes of services and their instances."""

from client_sdk.models import Heartbeat, InstanceRegistration, ServiceDeclaration, answers
from scheduler_service.api import examples, services
from scheduler_service.api.large_answers import AnswerLine
from scheduler_service.api.parameters import flag, paging
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

SERVICES = group(
    "services",
    Operation(
        route="GET /services",
        handler=services.list_services,
        role=Role.VIEWER,
        summary="List services",
        query=paging(),
        data=answers.Listing[answers.ServiceLine],
        answer_line=AnswerLine.STATE,
    ),
    Operation(
        route="PUT /services/{name}",
        handler=services.put_service,
        role=Role.EDITOR,
        summary="Register a service with the jobs that it declares",
        query=(
            flag(
                "force",
                "Bring its jobs to the declaration now, over what was edited or made elsewhere.",
                default=False,
            ),
        ),
        body=Body(ServiceDeclaration, examples.SERVICE),
        data=answers.Service,
        success=(201, 200),
    ),
    Operation(
        route="GET /services/{name}",
        handler=services.read_service,
        role=Role.VIEWER,
        summary="Read a service with its timers and instances",
        data=answers.Service,
        statuses=(404,),
        answer_line=AnswerLine.STATE,
    ),
    Operation(
        route="DELETE /services/{name}",
        handler=services.remove_service,
        role=Role.EDITOR,
        summary="Remove a service; its jobs end after its grace period",
        data=answers.ServiceRef,
        statuses=(404,),
    ),
    Operation(
        route="POST /services/{name}/pause",
        handler=services.pause_service,
        role=Role.OPERATOR,
        summary="Pause a service: steps for it wait until it is resumed",
        data=answers.ServiceLine,
        statuses=(404,),
    ),
    Operation(
        route="POST /services/{name}/resume",
        handler=services.resume_service,
        role=Role.OPERATOR,
        summary="Resume a service: the steps that wait for it are sent",
        data=answers.ServiceLine,
        statuses=(404,),
    ),
    Operation(
        route="GET /services/{name}/drift",
        handler=services.show_drift,
        role=Role.VIEWER,
        summary="Show where jobs differ from what a service declares, and why",
        query=paging(),
        data=answers.Listing[answers.Drift],
        statuses=(404,),
        answer_line=AnswerLine.STATE,
    ),
    Operation(
        route="POST /services/{name}/instances/{instanceId}/heartbeat",
        handler=services.take_heartbeat,
        role=Role.OPERATOR,
        summary="Report that an instance is alive, and its load",
        body=Body(Heartbeat, examples.HEARTBEAT),
        data=answers.InstanceRef,
        statuses=(404,),
        is_busy=True,
    ),
    Operation(
        route="PUT /services/{name}/instances/{instanceId}",
        handler=services.put_instance,
        role=Role.EDITOR,
        summary="Register an instance, every 30 s",
        body=Body(InstanceRegistration, examples.INSTANCE),
        data=answers.Instance,
        success=(201, 200),
    ),
    Operation(
        route="DELETE /services/{name}/instances/{instanceId}",
        handler=services.remove_instance,
        role=Role.OPERATOR,
        summary="Deregister an instance before it stops",
        data=answers.InstanceRef,
        statuses=(404,),
    ),
)
